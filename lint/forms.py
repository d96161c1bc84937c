"""Takes bulk copies apart by the rules of the PTX ISA, and says what ptxas makes of a form on a target."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from ptxguard.model import BulkCopy

if TYPE_CHECKING:
    from ptxguard.arch import Target
    from ptxguard.model import Instruction, Operand

_COPY = ("cp", "async", "bulk")
# Instructions of their own that share the first three words (PTX ISA, "Data Movement and Conversion").
_NO_COPY = frozenset({"prefetch", "commit_group", "wait_group"})

_SPACES = frozenset({"shared::cluster", "shared::cta", "shared", "global"})
_RANKS = {f"{rank}d": rank for rank in range(1, 6)}
# Tensor access modes (PTX ISA, "cp.async.bulk.tensor", .load_mode of each direction) -> ranks that they take.
_LOAD_MODES = {
    "tile": range(1, 6),
    "tile::gather4": range(2, 3),
    "im2col": range(3, 6),
    "im2col::w": range(3, 6),
    "im2col::w::128": range(3, 6),
}
_STORE_MODES = {"tile": range(1, 6), "tile::scatter4": range(2, 3), "im2col_no_offs": range(3, 6)}
_MODES = _LOAD_MODES.keys() | _STORE_MODES.keys()

_MBARRIER = "mbarrier::complete_tx::bytes"
_GROUP = "bulk_group"
_MULTICAST = "multicast::cluster"
_HINT = "L2::cache_hint"
_CTA_GROUPS = frozenset({"cta_group::1", "cta_group::2"})
_OPTIONS = _CTA_GROUPS | {_MULTICAST, _HINT, "ignore_oob", "cp_mask"}

# (tensor?, destination, source) -> completion mechanism and options of that direction's syntax.
_DIRECTIONS: dict[tuple[bool, str, str], tuple[str, frozenset[str]]] = {
    (False, "shared::cta", "global"): (_MBARRIER, frozenset({_HINT, "ignore_oob"})),
    (False, "shared::cluster", "global"): (_MBARRIER, frozenset({_HINT, _MULTICAST})),
    (False, "shared::cluster", "shared::cta"): (_MBARRIER, frozenset()),
    (False, "global", "shared::cta"): (_GROUP, frozenset({_HINT, "cp_mask"})),
    (True, "shared::cta", "global"): (_MBARRIER, _CTA_GROUPS | {_HINT}),
    (True, "shared::cluster", "global"): (_MBARRIER, _CTA_GROUPS | {_HINT, _MULTICAST}),
    (True, "global", "shared::cta"): (_GROUP, frozenset({_HINT})),
}

# "Target ISA Notes" of both instructions: these need sm_100a, sm_103a, sm_110a or their families' `f`.
_FAMILY_ONLY = _CTA_GROUPS | {"im2col::w::128", "tile::scatter4"}
_FAMILY_ONLY_IN_CLUSTER = frozenset({"im2col::w", "tile::gather4"})
_DATACENTER_BLACKWELL = range(100, 120)

# "PTX ISA Notes" of both instructions, and the first CUDA toolkit of each version (CUDA release notes).
_WORDS_OF_8_6 = _FAMILY_ONLY | _FAMILY_ONLY_IN_CLUSTER | {"cp_mask"}
_TOOLKITS = {(8, 0): (12, 0), (8, 6): (12, 8), (9, 2): (13, 2)}


@dataclass(frozen=True)
class _Form:
    """A dotted opcode sorted by the role of its words; ptxas minds no order beyond destination, source."""

    tensor: bool
    ranks: tuple[int, ...]
    modes: tuple[str, ...]
    spaces: tuple[str, ...]
    completions: tuple[str, ...]
    options: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def rank(self) -> int:
        return self.ranks[0] if self.ranks else 0

    @property
    def mode(self) -> str:
        """`.tile` may be left out."""
        return (self.modes or ("tile",))[0] if self.tensor else ""

    def space(self, index: int) -> str:
        return self.spaces[index] if index < len(self.spaces) else ""

    @property
    def words(self) -> frozenset[str]:
        """Mode and options: what the notes on targets and versions speak of."""
        return frozenset((self.mode, *self.options))

    @property
    def family_only(self) -> bool:
        """Whether it assembles for sm_100a, sm_103a, sm_110a and their families only."""
        restricted = _FAMILY_ONLY
        if self.space(0) == "shared::cluster":
            restricted |= _FAMILY_ONLY_IN_CLUSTER
        return bool(self.words & restricted)

    @property
    def is_whole(self) -> bool:
        """Whether one direction of the PTX ISA has this syntax, on whatever target."""
        direction = _DIRECTIONS.get((self.tensor, self.space(0), self.space(1)))
        if direction is None or self.unknown or len(self.spaces) != 2 or not self._has_rank_and_mode():
            return False
        completion, options = direction
        single = len(set(self.options)) == len(self.options)
        return self.completions == (completion,) and single and set(self.options) <= options

    def _has_rank_and_mode(self) -> bool:
        if not self.tensor:
            return not self.ranks and not self.modes
        modes = _LOAD_MODES if self.space(1) == "global" else _STORE_MODES
        return len(self.ranks) == 1 and len(self.modes) < 2 and self.rank in modes.get(self.mode, ())


@lru_cache(maxsize=1024)
def _form(opcode: str) -> _Form | None:
    """Sort the words of an opcode; None where it is no bulk copy."""
    words = opcode.split(".")
    if tuple(words[:3]) != _COPY or _NO_COPY & set(words[3:4]):
        return None
    tensor = words[3:4] == ["tensor"]
    rest = words[4 if tensor else 3 :]
    spaces = tuple(word for word in rest if word in _SPACES)
    modes = tuple(word for word in rest if word in _MODES)
    completions = tuple(word for word in rest if word in {_MBARRIER, _GROUP})
    options = tuple(word for word in rest if word in _OPTIONS)
    known = _SPACES | _MODES | _OPTIONS | _RANKS.keys() | {_MBARRIER, _GROUP}
    return _Form(
        tensor=tensor,
        ranks=tuple(_RANKS[word] for word in rest if word in _RANKS),
        modes=modes,
        spaces=spaces,
        completions=completions,
        options=options,
        unknown=tuple(word for word in rest if word not in known),
    )


def read_bulk_copy(instruction: Instruction) -> BulkCopy | None:
    """A `cp.async.bulk` or `cp.async.bulk.tensor` copy taken apart; None for every other instruction.

    Prefetches, reductions and the group instructions are no copies. A form that no ptxas takes is read as
    far as its words go; `on_target` says "rejected" of it.
    """
    form = _form(instruction.opcode)
    if form is None:
        return None
    destination, mbarrier = _roles(form, instruction.operands)
    return BulkCopy(
        instruction=instruction,
        dims=form.rank,
        mode=form.mode,
        destination_space=form.space(0),
        source_space=form.space(1),
        multicast=_MULTICAST in form.options,
        cta_group=bool(_CTA_GROUPS & set(form.options)),
        destination=destination,
        mbarrier=mbarrier,
        unknown_modifiers=form.unknown,
    )


def _roles(form: _Form, operands: tuple[Operand, ...]) -> tuple[Operand | None, Operand | None]:
    """Destination and mbarrier by their place in the syntax (ptxas takes them without brackets too).

    tensor: dst, [map, coords], mbar …   plain: dst, src, size{, left, right}, mbar …   stores have none.
    """
    if form.completions == (_GROUP,):
        return (operands[0] if len(operands) >= 2 else None), None
    place = 2 if form.tensor else 5 if "ignore_oob" in form.options else 3
    if len(operands) <= place:
        return None, None
    return operands[0], operands[place]


def on_target(copy: BulkCopy, target: Target) -> str:
    """What ptxas does with the form: "syscall", "native" or "rejected" (as ptxas 13.0 and 13.5)."""
    return _outcome(copy.opcode, target)


@lru_cache(maxsize=4096)
def _outcome(opcode: str, target: Target) -> str:
    form = _form(opcode)
    if form is None or not form.is_whole or not _assembles(form, target):
        return "rejected"
    is_cluster_load = form.spaces == ("shared::cluster", "global")
    return "syscall" if is_cluster_load and target.calls_driver else "native"


def _assembles(form: _Form, target: Target) -> bool:
    """The PTX ISA's "Target ISA Notes" for a well-formed copy."""
    if form.family_only:
        return target.number in _DATACENTER_BLACKWELL and target.suffix in {"a", "f"}
    return target.number >= (100 if form.words & (_FAMILY_ONLY_IN_CLUSTER | {"cp_mask"}) else 90)


def syscall_name(copy: BulkCopy) -> str | None:
    """The driver function that the copy becomes on sm_12x, or None where it becomes none there."""
    form = _form(copy.opcode)
    restricted = _FAMILY_ONLY | _FAMILY_ONLY_IN_CLUSTER
    if (
        form is None
        or not form.is_whole
        or not copy.is_cluster_load
        or {form.mode, *form.options} & restricted
    ):
        return None
    shape = f"_tensor_{form.rank}d_{form.mode}" if form.tensor else ""
    return f"__cuda_syscall_cp_async_bulk{shape}_{'multicast' if copy.multicast else 'unicast'}"


def first_ptx_version(copy: BulkCopy) -> tuple[int, int]:
    """The first PTX ISA version (major, minor) that has the form; ptxas names it in its error."""
    form = _form(copy.opcode)
    words = form.words if form is not None else frozenset[str]()
    if "ignore_oob" in words:
        return (9, 2)
    if words & _WORDS_OF_8_6 or copy.destination_space == "shared::cta":
        return (8, 6)
    return (8, 0)


def first_toolkit(copy: BulkCopy) -> tuple[int, int]:
    """The first CUDA toolkit (major, minor) whose ptxas takes the form on a target that has it."""
    return _TOOLKITS[first_ptx_version(copy)]
