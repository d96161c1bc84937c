"""The bulk-copy forms under test: their PTX, the tensors they read, and the data that must arrive."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

WORD = 4  # bytes of an element; all tensors hold unsigned 32-bit numbers, each its own index plus 1

# Extent and box of each rank, innermost first. The box runs over the end of the innermost dimension, so that
# the zeros of the out-of-bound part are compared too.
_TILE_EXTENT, _TILE_BOX, _TILE_START = (16, 6, 5, 4, 3), (8, 3, 2, 2, 2), (12, 2, 1, 1, 1)
_CHANNELS, _PIXELS = 8, 12
_SPACE_EXTENT, _BATCH = (6, 5, 4), 3
_BULK_WORDS = 256


@dataclass(frozen=True)
class Form:
    """One form of a global -> shared bulk copy.

    Attributes:
        mode: tile, im2col or bulk.
        dims: tensor rank, 0 for a plain bulk copy.
    """

    mode: str
    dims: int

    @property
    def name(self) -> str:
        """`tensor_2d_tile`, `tensor_3d_im2col` or `bulk`."""
        return f"tensor_{self.dims}d_{self.mode}" if self.dims else "bulk"

    def syscall(self, *, multicast: bool) -> str:
        """The driver function that the `shared::cluster` form calls on sm_12x."""
        kind = "multicast" if multicast else "unicast"
        return f"__cuda_syscall_cp_async_bulk_{self.name}_{kind}".replace("_bulk_bulk_", "_bulk_")

    @property
    def extent(self) -> tuple[int, ...]:
        """Elements of the global tensor by dimension, innermost first."""
        if self.mode == "tile":
            return _TILE_EXTENT[: self.dims]
        if self.mode == "im2col":
            return (_CHANNELS, *_SPACE_EXTENT[: self.dims - 2], _BATCH)
        return (_BULK_WORDS,)

    @property
    def words(self) -> int:
        """Elements that one copy moves."""
        if self.mode == "tile":
            return prod(_TILE_BOX[: self.dims])
        return _CHANNELS * _PIXELS if self.mode == "im2col" else _BULK_WORDS

    @property
    def box(self) -> tuple[int, ...]:
        """Box of a tile copy, innermost first."""
        return _TILE_BOX[: self.dims]

    @property
    def channels(self) -> int:
        """Channels per pixel of an im2col copy."""
        return _CHANNELS

    @property
    def pixels(self) -> int:
        """Pixels per column of an im2col copy."""
        return _PIXELS

    @property
    def start(self) -> tuple[int, ...]:
        """Coordinates given to the instruction, innermost first."""
        if self.mode == "tile":
            return _TILE_START[: self.dims]
        return (0, 1, *([0] * (self.dims - 2)))

    @property
    def offsets(self) -> tuple[int, ...]:
        """Filter offsets of an im2col copy (W, H, D)."""
        return (1,) * (self.dims - 2) if self.mode == "im2col" else ()

    def source_words(self) -> list[int]:
        """The global tensor."""
        return [index + 1 for index in range(prod(self.extent))]

    def expected_words(self) -> list[int]:
        """What shared memory holds after the copy (PTX ISA, "Tensors": tile and im2col mode)."""
        if self.mode == "tile":
            return self._expected_tile()
        return self._expected_im2col() if self.mode == "im2col" else self.source_words()

    def _element(self, coordinates: tuple[int, ...]) -> int:
        """An element by its coordinates, 0 outside the tensor."""
        index, stride = 0, 1
        for at, extent in zip(coordinates, self.extent, strict=True):
            if not 0 <= at < extent:
                return 0
            index, stride = index + at * stride, stride * extent
        return index + 1

    def _expected_tile(self) -> list[int]:
        ranges = [range(at, at + size) for at, size in zip(self.start, self.box, strict=True)]
        return [self._element(tuple(reversed(place))) for place in product(*reversed(ranges))]

    def _expected_im2col(self) -> list[int]:
        """Base pixels walk W first in a box one smaller than the image; the offset picks the filter tap."""
        spatial = [range(size - 1) for size in _SPACE_EXTENT[: self.dims - 2]]
        bases = [tuple(reversed(place)) for place in product(range(_BATCH), *reversed(spatial))]
        first = bases.index(self.start[1:])
        return [
            self._element((channel, *(at + 1 for at in base[:-1]), base[-1]))
            for base in bases[first : first + _PIXELS]
            for channel in range(_CHANNELS)
        ]


FORMS = (
    *(Form("tile", dims) for dims in range(1, 6)),
    *(Form("im2col", dims) for dims in range(3, 6)),
    Form("bulk", 0),
)


def find_form(name: str) -> Form:
    """The form of that name.

    Raises:
        KeyError: no such form.
    """
    return {form.name: form for form in FORMS}[name]


def issue_source(form: Form, spelling: str, *, multicast: bool) -> str:
    """CUDA C++ of `issue()`: the one copy instruction.

    Args:
        form: what to copy.
        spelling: `cta` or `cluster`, the destination's state space as written.
        multicast: to both CTAs of a cluster of two.
    """
    cast = ".multicast::cluster" if multicast else ""
    completion = f"mbarrier::complete_tx::bytes{cast}"
    if form.mode == "bulk":
        opcode = f"cp.async.bulk.shared::{spelling}.global.{completion}"
        text = f"{opcode} [%0], [%1], {form.words * WORD}, [%2]"
        source = '"l"(source)'
    else:
        opcode = f"cp.async.bulk.tensor.{form.dims}d.shared::{spelling}.global.{form.mode}.{completion}"
        place = ", ".join(map(str, form.start))
        text = f"{opcode} [%0], [%1, {{{place}}}], [%2]"
        source = '"l"(map)'
    if form.offsets:
        text += f", {{{', '.join(map(str, form.offsets))}}}"
    operands = f'"r"(destination), {source}, "r"(barrier)'
    if multicast:
        text += ", %3"
        operands += ', "h"((unsigned short)3)'
    return (
        "struct alignas(64) TensorMap { unsigned long long opaque[16]; };\n"
        "static __device__ void issue(unsigned destination, const TensorMap* map, const unsigned* source,"
        " unsigned barrier) {\n"
        f'  asm volatile("{text};" :: {operands} : "memory");\n}}\n'
    )
