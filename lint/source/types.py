"""Just enough of types to tell overloads apart: pointer, integer, floating, class by name, or unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxguard.source.cuda import Function
from ptxguard.source.tokens import IDENT

if TYPE_CHECKING:
    from ptxguard.source.exprs import Node
    from ptxguard.source.tokens import Tokens

_INTEGERS = frozenset(
    "int unsigned short long char bool size_t uint8_t uint16_t uint32_t uint64_t int8_t int16_t int32_t "
    "int64_t uintptr_t intptr_t ptrdiff_t uint ushort uchar ulong signed std::size_t cuuint32_t "
    "cuuint64_t".split()
)
_FLOATS = frozenset({"float", "double", "half", "__half", "__nv_bfloat16"})
_NOISE = frozenset(
    "const volatile __restrict__ __restrict restrict & && typename constexpr static inline register "
    "struct class __grid_constant__ extern __shared__ mutable".split()
)


def classify_type(text: str) -> str:
    """`pointer:<base>`, `integer`, `float`, `class:<name>` or `unknown` for a type as written."""
    words = [word for word in text.replace("*", " * ").replace("&", " & ").split() if word not in _NOISE]
    if not words or "auto" in words:
        return "unknown"
    plain = [word for word in words if word != "*" and word not in ("[", "]")]
    if "*" in words or "[" in words:
        base = " ".join(word for word in plain if not word.isdigit()).rsplit("::", 1)[-1].strip()
        return f"pointer:{base}"
    if all(word in _INTEGERS or word == "std" or word == "::" for word in plain):
        return "integer"
    if len(plain) == 1 and plain[0] in _FLOATS:
        return "float"
    if "<" in plain or "(" in plain:
        return "unknown"
    return f"class:{plain[-1]}"


def argument_type(node: Node, owner: object, tokens: Tokens) -> str:
    """Type of an argument as far as literals, casts and declarations in the function tell."""
    if node.kind == "number" and node.text == "0":
        return "null"  # an integer and a null pointer constant
    if node.kind == "name" and node.text in ("nullptr", "NULL"):
        return "pointer:"
    if node.kind == "number":
        is_float = "." in node.text and not node.text.startswith("0x")
        return "float" if is_float else "integer"
    if node.kind == "string":
        return "pointer:char"
    if node.kind == "cast":
        return classify_type(node.text)
    if node.kind == "unary" and node.text == "&":
        inner = argument_type(node.parts[0], owner, tokens)
        kind, _, base = inner.partition(":")
        return f"pointer:{base}" if kind == "class" else "pointer:"
    if node.kind == "call" and node.text.rsplit("::", 1)[-1] == "__cvta_generic_to_shared":
        return "integer"
    if node.kind == "binary" and node.text in ("+", "-"):
        left = argument_type(node.parts[0], owner, tokens)
        return left if left.startswith("pointer") else argument_type(node.parts[1], owner, tokens)
    if node.kind == "name" and isinstance(owner, Function) and owner.unit.tokens is tokens:
        return declared_type(node.text, owner, node.index)
    return "unknown"


def declared_type(name: str, function: Function, before: int) -> str:
    """Type with which a parameter or local of a function is declared."""
    tokens = function.unit.tokens
    for index in reversed(tokens.positions.get(name, ())):
        if not function.body[0] <= index < before:
            continue
        start = index
        while start > function.body[0] and (
            (tokens.kinds[start - 1] == IDENT and tokens.texts[start - 1] not in ("return", "else"))
            or tokens.texts[start - 1] in ("*", "&", "::", "const")
        ):
            start -= 1
        if start < index and tokens.texts[start] not in ("*", "&"):
            text = " ".join(tokens.texts[start:index])
            array = tokens.texts[index + 1] == "["
            return classify_type(text + (" *" if array else ""))
    for parameter in function.parameters:
        if parameter.name == name:
            known = (*function.template_names, *function.record_templates)
            kind = classify_type(parameter.type_text)
            return "unknown" if kind.partition(":")[2] in known and kind.startswith("class") else kind
    return "unknown"


def argument_fits(argument: str, parameter_text: str, templates: tuple[str, ...]) -> bool | None:
    """Whether an argument can convert to a parameter: True exactly, False never, None not known."""
    parameter = classify_type(parameter_text)
    if argument == "null":
        return True if parameter == "integer" else None
    kind, _, base = argument.partition(":")
    wanted, _, wanted_base = parameter.partition(":")
    if "unknown" in (kind, wanted) or wanted_base in templates or base in templates:
        if kind == "pointer" and wanted == "pointer":
            return True
        if wanted == "pointer" and kind in ("integer", "float"):
            return False
        return None
    if kind != wanted:
        if {kind, wanted} == {"integer", "float"}:
            return None
        return None if "class" in (kind, wanted) else False
    if kind == "pointer":
        if base == wanted_base or not base or not wanted_base:
            return True
        return None if wanted_base == "void" else False
    if kind == "class":
        return True if base == wanted_base else None
    return True


_SCALARS = frozenset(
    "int unsigned uint32_t uint64_t int32_t int64_t size_t float double bool char uint8_t uint16_t".split()
)


def declared_shape(texts: list[str], index: int) -> str:
    """Shape of the member declared at an index: array, pointer, object, scalar; "" for no declaration."""
    following = texts[index + 1] if index + 1 < len(texts) else ""
    if following not in (";", "[", "=", "{", ",", ":"):
        return ""
    before = texts[index - 1]
    if before in ("*", "&", "&&"):
        return "pointer"
    if following == "[":
        return "array"
    if before == ">" or before.isidentifier():
        # A barrier is a 64-bit word used through its address (`&s.bar`); by value it is a number.
        return "scalar" if before in _SCALARS else "object"
    return ""
