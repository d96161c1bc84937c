"""Follows the registers of a PTX function to the shared memory that they name: own, of a peer, or unknown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ptxguard.finding import Evidence
from ptxguard.model import AddressVerdict
from ptxguard.source import ptxvalue
from ptxguard.source.ptxvalue import Owner, Value, union

if TYPE_CHECKING:
    from ptxguard.model import BulkCopy, Operand
    from ptxguard.source.ptxbody import Definition
    from ptxguard.source.ptxcalls import CallGraph
    from ptxguard.source.ptxmodule import PtxFunction

# More steps than any real address takes; a longer chain is called unknown.
_STEP_LIMIT = 600
_DEPTH_LIMIT = 60
_LIMIT = "limit"

_VERDICTS = {Owner.LOCAL: "local", Owner.PEER: "peer"}
# PTX ISA, "Special Registers"; none of them holds an address.
_SPECIAL = re.compile(
    r"%(?:tid|ntid|ctaid|nctaid|laneid|warpid|nwarpid|smid|nsmid|gridid|lanemask_\w+|clock\w*|globaltimer\w*"
    r"|pm\d\w*|envreg\d+|(?:total|aggr|dynamic)_smem_size|is_explicit_cluster|n?clusterid"
    r"|cluster_n?cta(?:id|rank))(?:\.[xyzw])?\Z"
)
_IMMEDIATE = re.compile(r"-?\s*(?:0[xX][0-9a-fA-F]{1,16}|0[bB][01]{1,64}|0[0-7]{0,22}|[1-9][0-9]{0,19})U?\Z")
_TERM = re.compile(r"([+-])\s*(-?\s*[\w$%]+)")
_ADDRESS = re.compile(
    r"\[?\s*(?P<base>-?[\w$%]+(?:\.[xyzw])?)\s*(?P<offset>(?:[+-]\s*-?\s*[\w$%]+\s*)*)\]?\Z"
)

# Opcodes whose result is their first source: conversions keep the owner (`CONTRACT.md`, "Two proofs"), and a
# shuffle hands a value on within a warp, which is within the CTA.
_MOVES = frozenset({"mov", "cvt", "cvta", "shfl"})
# What they give comes from memory or is data: an address only if somebody has put one there. Compilers reuse
# an accumulator's zero as the start of a counter.
_DATA = frozenset(
    {"ldu", "ldmatrix", "atom", "tex", "tld4", "suld", "tcgen05", "wmma", "mma", "wgmma", "mbarrier"}
    | {"vote", "match", "redux", "elect", "activemask", "popc", "clz", "bfind", "fns", "dp4a", "dp2a"}
)
_CHOICES = frozenset({"selp", "slct", "min", "max"})
_BINARY = {
    "add": ptxvalue.add,
    "sub": ptxvalue.subtract,
    "or": ptxvalue.combine_bits,
    "xor": ptxvalue.combine_bits,
    "and": ptxvalue.mask,
    "mul": ptxvalue.multiply,
    "shl": ptxvalue.shift_left,
    "shr": ptxvalue.shift_right,
}


class AddressFlow:
    """Answers for the functions of one module; definitions are united, whatever the control flow."""

    def __init__(self, graph: CallGraph) -> None:
        self._graph = graph
        self._steps = 0
        self._known: dict[str, Value | None] = {}
        # Registers whose loop the value under way goes through: it holds for that way only.
        self._open: set[str] = set()

    def judge(self, function: PtxFunction, copy: BulkCopy, path: str) -> AddressVerdict:
        """The owner of the copy's destination and mbarrier, with the lines that show it."""
        destination = self._operand_value(function, copy.destination)
        mbarrier = self._operand_value(function, copy.mbarrier)
        line = self._graph.module.line
        evidence = tuple(
            Evidence("address", path, line(offset), text)
            for offset, text in dict.fromkeys((*destination.roots, *mbarrier.roots))
        )
        return AddressVerdict(
            _VERDICTS.get(destination.owner, "unknown"),
            _VERDICTS.get(mbarrier.owner, "unknown"),
            f"the destination is {destination.reason}",
            evidence,
        )

    def _operand_value(self, function: PtxFunction, operand: Operand | None) -> Value:
        if operand is None:
            return Value(Owner.UNKNOWN, "an operand that could not be told apart")
        if operand.kind == "address" and any(child.kind == "vector" for child in operand.children):
            return Value(Owner.UNKNOWN, "a tensor map")
        self._steps = 0
        self._open.clear()
        value = self._address(function, operand.text, operand.start, frozenset())
        return value or Value(Owner.UNKNOWN, "a register that nothing in the function writes")

    def _address(self, function: PtxFunction, text: str, offset: int, seen: frozenset[str]) -> Value | None:
        """`[base + 16 - 8]`."""
        match = _ADDRESS.match(text)
        if match is None:
            return Value(Owner.UNKNOWN, f"`{text}`, which is no register and no symbol")
        base = self._value(function, match["base"], offset, seen)
        for sign, number in _TERM.findall(match["offset"]):
            term = self._value(function, number.replace(" ", ""), offset, seen)
            base = ptxvalue.subtract(base, term) if sign == "-" else ptxvalue.add(base, term)
        return base

    def _value(self, function: PtxFunction, text: str, offset: int, seen: frozenset[str]) -> Value | None:
        """What a register, symbol or number is; None for a register in the middle of its own definition."""
        if _IMMEDIATE.match(text):
            return Value(Owner.NUMBER, "a number", constants=frozenset((_number(text),)))
        shared = function.body.shared_variables.get(text) or self._graph.shared_variables.get(text)
        if shared is not None:
            kind = ".extern .shared" if shared.is_extern else ".shared"
            reason = f"in `{text}`, the {kind} variable of line {self._graph.module.line(shared.offset)}"
            return Value(Owner.LOCAL, reason, ((shared.offset, f"{kind} {text}"),))
        if text in function.params and not function.body.definitions(text):
            return self._parameter(function, function.params.index(text), seen)
        if _SPECIAL.match(text):
            return Value(Owner.NUMBER, f"`{text}`")
        return self._register(function, text, offset, seen)

    def _register(self, function: PtxFunction, name: str, offset: int, seen: frozenset[str]) -> Value | None:
        key = f"{function.name}\0{name}"
        if key in self._known:
            return self._known[key]
        if key in seen:
            self._open.add(key)
            return None
        self._steps += 1
        if self._steps > _STEP_LIMIT or len(seen) > _DEPTH_LIMIT:
            self._open.add(_LIMIT)
            return Value(Owner.UNKNOWN, f"at the end of a chain too long to follow (`{name}`)")
        definitions = function.body.definitions(name)
        if not definitions:
            return Value(Owner.UNKNOWN, f"`{name}`, which nothing in the function writes", ((offset, name),))
        around, self._open = self._open, set()
        inner = seen | {key}
        value = union([self._result(function, item, inner) for item in definitions])
        self._open.discard(key)
        if not self._open:
            self._known[key] = value
        self._open |= around
        return value

    def _result(self, function: PtxFunction, item: Definition, seen: frozenset[str]) -> Value | None:
        """What one definition makes of its sources."""
        base = item.opcode.split(".", 1)[0]
        if base == "ld":
            return self._load(function, item, seen)
        if base == "mapa":
            return self._mapped(function, item, seen)
        if base == "call":
            return Value(Owner.UNKNOWN, "the result of a call", ((item.offset, "call"),))
        if base in _DATA:
            return Value(Owner.INPUT, f"the result of `{item.opcode}`", ((item.offset, item.opcode),))
        values = [self._source(function, source, item.offset, seen) for source in item.sources]
        if base in _MOVES and values:
            return values[0]
        if base in _CHOICES and len(values) >= 2:
            return union(values[:2])
        if base in {"mul", "mad"} and ".hi" in item.opcode:
            return ptxvalue.arithmetic(values, item.opcode)
        if base in _BINARY and len(values) == 2:
            return _BINARY[base](values[0], values[1])
        if base == "mad" and len(values) == 3:
            return ptxvalue.add(ptxvalue.multiply(values[0], values[1]), values[2])
        return ptxvalue.arithmetic(values, item.opcode)

    def _source(self, function: PtxFunction, source: str, offset: int, seen: frozenset[str]) -> Value | None:
        """A source operand; of `{low, high}` both, the address being in the low half."""
        if not source.startswith("{"):
            return self._address(function, source, offset, seen)
        parts = [self._address(function, part, offset, seen) for part in source.strip("{} ").split(",")]
        return parts[0] if len(parts) == 1 else ptxvalue.combine_bits(parts[0], parts[1])

    def _load(self, function: PtxFunction, item: Definition, seen: frozenset[str]) -> Value | None:
        """A load: what callers pass for a parameter of a `.func`, otherwise a value from outside."""
        match = _ADDRESS.match(item.sources[0]) if item.sources else None
        if ".param" not in item.opcode or match is None:
            return Value(Owner.INPUT, "loaded from memory", ((item.offset, item.opcode),))
        name = match["base"]
        root = ((item.offset, f"ld.param [{name}]"),)
        if name not in function.params:
            return Value(Owner.UNKNOWN, "the result of a call", root)
        if function.is_entry or match["offset"].replace(" ", "") not in {"", "+0"}:
            return Value(Owner.INPUT, f"from the parameter `{name}`", root)
        return self._parameter(function, function.params.index(name), seen)

    def _mapped(self, function: PtxFunction, item: Definition, seen: frozenset[str]) -> Value:
        """`mapa`: of another CTA, unless the rank is the own one (`CONTRACT.md`: then unknown)."""
        root = ((item.offset, " ".join((item.opcode, *item.sources))),)
        if len(item.sources) > 1 and self._is_own_rank(function, item.sources[1]):
            return Value(Owner.UNKNOWN, "mapped by mapa to the own cluster rank", root)
        return Value(Owner.PEER, "mapped to another CTA by mapa", root)

    def _is_own_rank(self, function: PtxFunction, rank: str) -> bool:
        if rank == "%cluster_ctarank":
            return True
        definitions = function.body.definitions(rank)
        return bool(definitions) and all(item.sources == ("%cluster_ctarank",) for item in definitions)

    def _parameter(self, function: PtxFunction, index: int, seen: frozenset[str]) -> Value | None:
        """A parameter: local only if it is at every call, and nobody outside can call."""
        name = function.params[index]
        key = f"{function.name}\0param {index}"
        if key in seen:
            self._open.add(key)
            return None
        if function.is_entry:
            return Value(Owner.INPUT, f"the kernel parameter `{name}`", ((function.start, name),))
        if not self._graph.all_calls_known(function):
            reason = f"the parameter `{name}` of `{function.name}`, which others may call"
            return Value(Owner.UNKNOWN, reason, ((function.start, name),))
        arguments = [
            self._argument(caller, call.arguments, index, call.offset, seen | {key})
            for caller, call in self._graph.calls_of(function.name)
        ]
        self._open.discard(key)
        if not arguments:
            return Value(Owner.UNKNOWN, f"the parameter `{name}` of a function that nothing calls")
        return union(arguments)

    def _argument(
        self, caller: PtxFunction, arguments: tuple[str, ...], index: int, offset: int, seen: frozenset[str]
    ) -> Value | None:
        if index >= len(arguments):
            return Value(Owner.UNKNOWN, "an argument that the call does not give", ((offset, "call"),))
        stored = caller.body.stored_parameter(arguments[index], offset)
        return self._value(caller, stored or arguments[index], offset, seen)


def _number(text: str) -> int:
    """A PTX integer: a leading 0 is octal."""
    digits = text.replace(" ", "").rstrip("U")
    sign, digits = (-1, digits[1:]) if digits.startswith("-") else (1, digits)
    octal = digits[0] == "0" and digits.isdecimal()
    return sign * int(digits, 8 if octal else 0)
