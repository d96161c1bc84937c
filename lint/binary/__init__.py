"""Compiled device code as witness: what is in a file, which kernels call the driver, from which line of source."""

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
