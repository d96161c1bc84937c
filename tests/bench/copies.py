"""Bulk copies of every form with their operands, and asm statements spelled in many ways around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from guarding import negated, random_guard
from program import Guard, is_mark

if TYPE_CHECKING:
    from random import Random

_DONE = "mbarrier::complete_tx::bytes"


@dataclass(frozen=True)
class Form:
    """A copy without its spelling.

    Attributes:
        head: opcode before the destination's state space.
        space: that state space.
        tail: opcode behind it.
        operands: text with `{dst}`, `{src}`, `{bar}` and constants.
        inputs: (role, constraint) in order of appearance; roles other than dst, src, bar are constants.
    """

    head: str
    space: str
    tail: str
    operands: str
    inputs: tuple[tuple[str, str], ...]

    @property
    def opcode(self) -> str:
        """The whole dotted text."""
        return f"{self.head}.{self.space}{self.tail}"


def random_form(rng: Random) -> Form:
    """Mostly loads to shared::cluster; some of the other directions and forms."""
    kind = rng.choices(("load", "multicast", "cta", "store", "peer"), (12, 2, 2, 1, 1))[0]
    if kind == "peer":
        inputs = (("dst", "r"), ("own", "r"), ("bar", "r"))
        tail = f".shared::cta.{_DONE}"
        return Form("cp.async.bulk", "shared::cluster", tail, "[{dst}], [{own}], 256, [{bar}]", inputs)
    tensor = rng.random() < 0.75
    if kind == "store":
        return _store(rng, tensor=tensor)
    space = "shared::cta" if kind == "cta" else "shared::cluster"
    tail, operands = f".global.{_DONE}", "[{dst}], [{src}], 1024, [{bar}]"
    inputs = [("dst", "r"), ("src", "l"), ("bar", "r")]
    head = "cp.async.bulk"
    if tensor:
        rank = rng.randint(1, 5)
        im2col = rank > 2 and rng.random() < 0.4
        head = f"cp.async.bulk.tensor.{rank}d"
        mode = ".im2col" if im2col else rng.choice((".tile", ""))
        tail = f".global{mode}.{_DONE}"
        coords = ", ".join(f"{{c{place}}}" for place in range(rank))
        operands = f"[{{dst}}], [{{src}}, {{{{{coords}}}}}], [{{bar}}]"
        inputs = [("dst", "r"), ("src", "l"), *((f"c{place}", "r") for place in range(rank)), ("bar", "r")]
        if im2col:
            offsets = [f"o{place}" for place in range(rank - 2)]
            operands += ", {{" + ", ".join(f"{{{name}}}" for name in offsets) + "}}"
            inputs += [(name, "h") for name in offsets]
    if kind == "multicast":
        tail += ".multicast::cluster"
        operands += ", {mask}"
        inputs.append(("mask", "h"))
    if rng.random() < 0.3:
        tail += ".L2::cache_hint"
        operands += ", {hint}"
        inputs.append(("hint", "l"))
    return Form(head, space, tail, operands, tuple(inputs))


def _store(rng: Random, *, tensor: bool) -> Form:
    if not tensor:
        inputs = (("src", "l"), ("dst", "r"))
        return Form("cp.async.bulk.global", "shared::cta", ".bulk_group", "[{src}], [{dst}], 1024", inputs)
    inputs = (("src", "l"), ("c0", "r"), ("c1", "r"), ("dst", "r"))
    tail = rng.choice((".bulk_group", ".tile.bulk_group"))
    head = "cp.async.bulk.tensor.2d.global"
    return Form(head, "shared::cta", tail, "[{src}, {{{c0}, {c1}}}], [{dst}]", inputs)


@dataclass(frozen=True)
class Variant:
    """One opcode that a statement can be compiled to, under further conditions."""

    mark: str
    opcode: str
    guards: tuple[Guard, ...] = ()


@dataclass(frozen=True)
class Spelled:
    """An asm statement as source.

    Attributes:
        before: macro definitions, for a header.
        text: the statement; expressions stand as `<dst>`, `<src>`, `<bar>`, `<own>`.
        variants: what it can be compiled to.
        given: `-D` that its conditions need.
        peer: whether its own text maps the destination to a peer.
    """

    before: str
    text: str
    variants: tuple[Variant, ...]
    given: dict[str, str]
    peer: bool = False


_CONSTANTS = {"r": "0", "h": "(unsigned short)3", "l": "0x14F0000000000000ull"}


def spell(rng: Random, form: Form, marks: tuple[str, str], name: str) -> Spelled:
    """Write a copy as an asm statement; names of macros begin with `name`."""
    mark = marks[0]
    named = False  # nvcc 13.0 knows `%[name]` not at all ("symbolic operand reference not supported")
    slots = {role: f"%[{role}]" if named else f"%{place}" for place, (role, _) in enumerate(form.inputs)}
    wrapped, slots, peer = _wrap(rng, form, slots)
    body = form.operands.format(**slots)
    before, given = "", {}
    variants: tuple[Variant, ...] = (Variant(mark, form.opcode),)
    choice = rng.random()
    first, _, last = wrapped.partition("$")
    opcode_text = f"{mark}{form.opcode}"
    text = f"{first}{opcode_text} {body};{last}"
    movable = form.space == "shared::cluster" and ".global" in form.tail and "multicast" not in form.tail
    if choice < 0.14 and movable:
        before, literals, variants, given = _by_macro(rng, form, (first, mark, body, last), name)
    elif choice < 0.26 and movable:
        before, literals, variants, given = _by_directive(
            rng, form, (first, mark, body, last), marks[1], name
        )
    elif choice < 0.34:
        before, literals = _stringised(form, (first, mark, body, last), name)
    elif choice < 0.46:
        fence = rng.choice(("", "PTX", "x"))
        text = text.replace("\\t", "\t").replace("\\n", "\n")  # a raw string knows no escapes
        literals = (
            f'R"{fence}(\n  {text}\n  ){fence}"' if rng.random() < 0.7 else f'R"{fence}({text}){fence}"'
        )
    else:
        literals = _cut(rng, text)
    constraints = ", ".join(
        f'{f"[{role}] " if named else ""}"{kind}"({_argument(role, kind)})' for role, kind in form.inputs
    )
    keyword = rng.choice(
        ("asm volatile", "asm volatile", "__asm__ __volatile__", "asm", "asm  /* x */ volatile")
    )
    if rng.random() < 0.12:
        before += f"#define {name}_ASM {rng.choice(('asm volatile', '__asm__ volatile'))}\n"
        keyword = f"{name}_ASM"
    clobber = rng.choice(('"memory"', '"memory"', ""))
    ending = f" : {clobber}" if clobber else ""
    outputs = rng.choice(("::", ": :", " :: "))
    statement = f"{keyword}({literals}\n    {outputs} {constraints}{ending});"
    return Spelled(before, statement, variants, given, peer)


def _argument(role: str, kind: str) -> str:
    return f"<{role}>" if role in ("dst", "src", "bar", "own") else _CONSTANTS[kind]


def _wrap(rng: Random, form: Form, slots: dict[str, str]) -> tuple[str, dict[str, str], bool]:
    """Text around the instruction (`$` is its place), with the destination in a register where it says so."""
    kind = rng.choices(("bare", "scope", "predicate", "offset", "mapa", "tab"), (10, 2, 2, 2, 1, 2))[0]
    target = slots["dst"]
    if kind == "scope":
        return "{ .reg .b32 t; mov.b32 t, 0; $ }", slots, False
    if kind == "predicate":
        return "{ .reg .pred p; setp.ne.u32 p, " + target + ", 0; @p $ }", slots, False
    if kind == "offset":
        text = "{ .reg .u32 to; add.u32 to, " + target + ", 128; $ }"
        return text, {**slots, "dst": "to"}, False
    if kind == "mapa" and form.space == "shared::cluster":
        text = "{ .reg .u32 to; mapa.shared::cluster.u32 to, " + target + ", 1; $ }"
        return text, {**slots, "dst": "to"}, True
    return ("\\t$\\n" if kind == "tab" else "$"), slots, False


Parts = tuple[str, str, str, str]


def _by_macro(
    rng: Random, form: Form, parts: Parts, name: str
) -> tuple[str, str, tuple[Variant, ...], dict[str, str]]:
    """The state space is a macro, in one or two values by a condition."""
    first, mark, body, last = parts
    macro = f"{name}_DST"
    literals = f'"{first}{mark}{form.head}." {macro} "{form.tail} {body};{last}"'
    if rng.random() < 0.3:
        return f'#define {macro} "shared::cluster"\n', literals, (Variant(mark, form.opcode),), {}
    before, guard, given = random_guard(rng, f"{name}_S")
    before += (
        f'#if {guard.text}\n#define {macro} "shared::cta"\n#else\n#define {macro} "shared::cluster"\n#endif\n'
    )
    return before, literals, _two(mark, form, guard), given


def _by_directive(
    rng: Random, form: Form, parts: Parts, second: str, name: str
) -> tuple[str, str, tuple[Variant, ...], dict[str, str]]:
    """`#if` between the literals of the statement."""
    first, mark, body, last = parts
    before, guard, given = random_guard(rng, f"{name}_S")
    if rng.random() < 0.5:
        inner = '"shared::cta"\n#else\n"shared::cluster"'
        text = f'"{first}{mark}{form.head}."\n#if {guard.text}\n{inner}\n#endif\n"{form.tail} {body};{last}"'
        return before, text, _two(mark, form, guard), given
    opcode = f"{form.head}.shared::cta{form.tail}"
    cta = f'"{second}{opcode} {body};"'
    cluster = f'"{mark}{form.opcode} {body};"'
    text = f'"{first}"\n#if !({guard.text})\n{cluster}\n#else\n{cta}\n#endif\n"{last}"'
    variants = (Variant(mark, form.opcode, (negated(guard),)), Variant(second, opcode, (guard,)))
    return before, text, variants, given


def _two(mark: str, form: Form, guard: Guard) -> tuple[Variant, ...]:
    cta = form.opcode.replace(".shared::cluster.", ".shared::cta.", 1)
    return (Variant(mark, cta, (guard,)), Variant(mark, form.opcode, (negated(guard),)))


def _stringised(form: Form, parts: Parts, name: str) -> tuple[str, str]:
    """Pieces made by function-like macros with `#`."""
    first, mark, body, last = parts
    macro = f"{name}_TEXT"
    before = f'#define {macro}_(space, rest) ".shared::" #space rest\n#define {macro}(space, rest) {macro}_(space, rest)\n'
    word = form.space.removeprefix("shared::")
    return before, f'"{first}{mark}{form.head}" {macro}({word}, "{form.tail} ") "{body};{last}"'


def _cut(rng: Random, text: str) -> str:
    """The text in one or several literals, also cut inside of words, over lines and comments."""
    count = rng.choice((1, 1, 2, 3, 5))
    allowed = [
        place for place in range(1, len(text)) if not is_mark(text[place - 1]) and text[place - 1] != "\\"
    ]
    cuts = sorted(rng.sample(allowed, min(count - 1, len(allowed))))
    pieces = [text[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    glue = (" ", "\n    ", '  // next " piece\n    ', " /* , ) */ ", "\n\n  ", '""')
    return "".join(
        f'"{piece}"' + (rng.choice(glue) if place < len(pieces) - 1 else "")
        for place, piece in enumerate(pieces)
    )
