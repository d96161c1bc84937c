"""Compiled device code as witness: what a file holds, which kernels call the driver, from which line."""

from ptxguard.binary.facts import Artifact, CallSite, CubinKernel, Image, SourceLine, Syscall
from ptxguard.binary.image import Wish
from ptxguard.binary.inventory import Inventory, inventory

__all__ = [
    "Artifact",
    "CallSite",
    "CubinKernel",
    "Image",
    "Inventory",
    "SourceLine",
    "Syscall",
    "Wish",
    "inventory",
]
