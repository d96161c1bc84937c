"""Turns one payload (cubin, PTX, LTO-IR) into an `Image` with the facts that were asked for."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ptxguard.binary.cubin import Cubin
from ptxguard.binary.disassembly import SassWish, with_sass
from ptxguard.binary.facts import Image
from ptxguard.binary.inflate import Scratch, Unpacked, pack
from ptxguard.binary.kernels import read_kernels
from ptxguard.binary.prefix import glance
from ptxguard.errors import BinaryError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ptxguard.binary.fatbin import FatbinEntry

_PTX_ENTRY = re.compile(rb"^[ \t]*(?:\.(?:visible|weak|extern)[ \t]+)*\.entry\b", re.MULTILINE)
# What damaged tables can lead to that no check of its own foresees.
_CONTRADICTIONS = (IndexError, KeyError, ValueError, OverflowError, MemoryError, struct.error)
_PTX_TARGET = re.compile(rb"^[ \t]*\.target[ \t]+sm_(\d+[af]?)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked of each image.

    Attributes:
        every_kernel: facts of all kernels, not only of the flagged ones.
        targets: names of the targets whose cubins are read, the others are only listed; None for all.
        digest: the sha256 of each file that holds device code.
        encode: text made of all kernels of an image where it is read, so that many of them cost little
            memory: `Image.encoded` holds it, and of the kernels only the flagged ones stay. A function of
            a module, because child processes are sent its name.
        sass: what is disassembled for showing; None: nothing.
    """

    every_kernel: bool = False
    targets: frozenset[str] | None = None
    digest: bool = True
    encode: Callable[[Image], str] | None = None
    sass: SassWish | None = None

    def reads(self, target: str) -> bool:
        """Whether cubins of this target are read."""
        return self.targets is None or target in self.targets


def listed(entry: FatbinEntry, index: int) -> Image:
    """What the header of a fatbin entry says of its image."""
    return Image(
        index=index,
        container=entry.container,
        offset=entry.offset,
        kind=entry.kind,
        target=entry.target if entry.kind != "ptx" else entry.target.replace("sm_", "compute_"),
        compressed_bytes=entry.payload_bytes,
        bytes=entry.full_bytes,
    )


def read_entry(entry: FatbinEntry, payload: memoryview, index: int, wish: Wish, scratch: Scratch) -> Image:
    """Read the payload of a fatbin entry.

    Raises:
        BinaryError: it is damaged; `offset` is that of the entry.
    """
    image = listed(entry, index)
    try:
        if entry.kind == "ptx":
            text = Unpacked(payload, entry.compression, entry.full_bytes, scratch).whole()
            return read_ptx(bytes(text).rstrip(b"\0"), image)
        if entry.kind == "elf" and wish.reads(entry.target):
            return _read_elf(Unpacked(payload, entry.compression, entry.full_bytes, scratch), image, wish)
    except BinaryError as error:
        at = "" if error.offset is None else f" (at byte {error.offset:#x} of the unpacked image)"
        raise BinaryError(
            f"image {index}, {entry.kind} for {image.target}: {error.message}{at}; it was not checked",
            offset=entry.offset,
        ) from error
    return image


def _read_elf(unpacked: Unpacked, image: Image, wish: Wish) -> Image:
    """Read a cubin as a whole, or only its front where nothing more can be asked of it."""
    if not wish.every_kernel:
        seen = glance(unpacked)
        if seen is not None:
            return replace(
                image, toolkit=seen.toolkit, relocatable=seen.relocatable, kernel_count=seen.kernel_count
            )
    return read_cubin(unpacked, image, wish)


def read_cubin(unpacked: Unpacked, image: Image, wish: Wish) -> Image:
    """Read a cubin; its target is the one given unless that is empty.

    Raises:
        BinaryError: it is damaged; `offset` counts from the image.
    """
    try:
        return _facts(Cubin(unpacked.whole()), image, wish)
    except _CONTRADICTIONS as error:
        raise BinaryError(f"its tables contradict each other ({error})", offset=0) from error


def _facts(cubin: Cubin, image: Image, wish: Wish) -> Image:
    target = image.target or cubin.target
    if not wish.reads(target):
        return replace(image, target=target)
    kernels = read_kernels(cubin, every=wish.every_kernel)
    found = replace(
        image,
        target=target,
        toolkit=cubin.toolkit,
        relocatable=cubin.header.relocatable,
        kernel_count=len(cubin.kernels),
        kernels=kernels if wish.sass is None else with_sass(kernels, cubin, wish.sass),
        command_line=cubin.command_line,
    )
    if wish.encode is None:
        return found
    flagged = tuple(kernel for kernel in found.kernels if kernel.flagged)
    return replace(found, kernels=flagged, encoded=pack(wish.encode(found).encode()))


def read_ptx(text: bytes, image: Image) -> Image:
    """Read PTX: counts its kernels; the text is kept where it holds a bulk copy."""
    target = _PTX_TARGET.search(text)
    return replace(
        image,
        target=image.target or (f"compute_{target[1].decode()}" if target else "compute_unknown"),
        kernel_count=len(_PTX_ENTRY.findall(text)),
        ptx=text.decode("utf-8", "replace") if b"cp.async.bulk" in text else None,
    )
