"""Names that an asm statement declares outside braces, so that each of its copies declares them again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_NAME = r"[\w$%]+=?"
# A brace, a declaration up to its end, or a label where a statement begins.
_PART = re.compile(
    r"[{}]|(?<![\w:])\.(reg|local|shared)\b([^;{}]*)" + rf"|(?:^|(?<=[;{{}}\n]))\s*({_NAME})\s*:(?!:)"
)
_DECLARED = re.compile(rf"(?:^|,)\s*(?:\.\w+\s+|\d+\s+)*({_NAME})")


@dataclass(frozen=True)
class DeclaredName:
    """A label, register or variable.

    Attributes:
        name: as the text spells it.
        kind: label, register or variable.
        start: offset of its first character in the text.
    """

    name: str
    kind: str
    start: int


def is_balanced(text: str) -> bool:
    """Whether a text closes every brace that it opens, so that what it declares has a scope of its own."""
    plain = _COMMENT.sub("", text)
    return plain.count("{") == plain.count("}")


def names_outside_braces(text: str) -> tuple[DeclaredName, ...]:
    """Fixed names that the text of an asm statement declares in the scope of the kernel.

    Braces make labels and registers local to them (PTX ISA, "Scope"), `%=` makes a name unique in each copy,
    and a name with an operand in it differs with the operand. A label counts only where a `bra` of the text
    goes to it: other assemblers have labels too.
    """
    if ".reg" not in text and ":" not in text and ".local" not in text and ".shared" not in text:
        return ()
    plain = _COMMENT.sub(lambda match: " " * len(match[0]), text)
    return tuple(name for name in _declared(plain) if _is_fixed(name, plain))


def _declared(plain: str) -> Iterator[DeclaredName]:
    depth = 0
    for match in _PART.finditer(plain):
        if match[0] in ("{", "}"):
            depth += 1 if match[0] == "{" else -1
        elif depth > 0:
            continue
        elif match[3] is not None:
            yield DeclaredName(match[3], "label", match.start(3))
        elif match[2].lstrip().startswith(".") and not match[2][:1].isalnum():
            kind = "register" if match[1] == "reg" else "variable"
            for name in _DECLARED.finditer(match[2]):
                yield DeclaredName(name[1], kind, match.start(2) + name.start(1))


def _is_fixed(name: DeclaredName, plain: str) -> bool:
    bare = name.name.replace("%%", "")
    if "%" in bare or "=" in bare or not bare or bare[0].isdigit():
        return False
    return (
        name.kind != "label" or re.search(rf"\bbra(?:\.uni)?\s+{re.escape(name.name)}\s*;", plain) is not None
    )
