"""Which of a fatbin's entries a device can take, and which nothing on that device will ever use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxguard.arch import Target
from ptxguard.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ptxguard.binary.facts import Image

_FAMILY = 10


def loads_on(target: str, sm: int) -> bool:
    """Whether a cubin (`sm_…`) or PTX (`compute_…`) can be loaded on a device of compute capability `sm`.

    CUDA C++ Programming Guide, "Binary Compatibility" and "Family-specific": a cubin runs on its own and
    later minor versions; with `f` too, within its family; with `a` on its own only. PTX without suffix is
    assembled for every later device.
    """
    try:
        parsed = Target.parse(target)
    except ConfigError:
        return False
    if parsed.suffix == "a":
        return parsed.number == sm
    if target.startswith("compute_") and not parsed.suffix:
        return parsed.number <= sm
    return parsed.number // _FAMILY == sm // _FAMILY and parsed.number <= sm


def picked(images: Iterable[Image], sm: int) -> list[Image]:
    """The images that a device of compute capability `sm` can pick: of each fatbin the nearest cubins.

    Entries of the same architecture with different suffixes are all returned, because which of them the
    driver prefers is not documented. PTX is taken only where no cubin of the fatbin loads.
    """
    by_container: dict[object, list[Image]] = {}
    for image in images:
        if image.kind in ("elf", "ptx") and loads_on(image.target, sm):
            # An image outside any fatbin is loaded by its name, by whoever ships it.
            by_container.setdefault(
                image.index if image.container is None else (image.container,), []
            ).append(image)
    chosen = []
    for group in by_container.values():
        cubins = [image for image in group if image.kind == "elf"] or group
        nearest = max(_number(image) for image in cubins)
        chosen += [image for image in cubins if _number(image) == nearest]
    return sorted(chosen, key=lambda image: image.index)


def _number(image: Image) -> int:
    return Target.parse(image.target).number
