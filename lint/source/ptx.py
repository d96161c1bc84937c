"""PTX text to instructions: one inline-asm template, one function body or one statement at a time."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, cast

from ptxguard.errors import ParseError
from ptxguard.model import Instruction

if TYPE_CHECKING:
    from lark import Lark

    from ptxguard.source.ptxbuild import PtxBuilder, Statement

_LOCK = Lock()
# Templates repeat (a wrapper header has hundreds); texts above this length do not and are not kept.
_MEMO_CHARACTERS = 4096


def parse_asm(text: str) -> tuple[Instruction, ...]:
    """The instructions of one inline-asm template, joined and with its escapes resolved.

    Unknown opcodes and modifiers are data. Declarations, labels and scopes are left out: `parse_statements`
    has them.

    Raises:
        ParseError: the text is no PTX; `offset` is that of the first character that does not fit.
    """
    return tuple(item for item in parse_statements(text) if isinstance(item, Instruction))


def parse_statements(text: str) -> tuple[Statement, ...]:
    """Everything in a PTX text, in order; `ptxsyntax.render` prints it back.

    Raises:
        ParseError: as for `parse_asm`.
    """
    return _parse_kept(text) if len(text) <= _MEMO_CHARACTERS else _parse(text)


@cache
def _parser() -> tuple[Lark, PtxBuilder]:
    """Lark is imported with the first text, not with the command line."""
    from ptxguard.source.ptxbuild import PtxBuilder
    from ptxguard.source.ptxtables import load_parser

    builder = PtxBuilder()
    return load_parser(Path(__file__).with_name("ptx.lark"), builder), builder


def _parse(text: str) -> tuple[Statement, ...]:
    with _LOCK:
        parser, builder = _parser()
        from lark.exceptions import UnexpectedInput, UnexpectedToken

        builder.begin(text)
        try:
            return cast("tuple[Statement, ...]", parser.parse(text))
        except UnexpectedInput as error:
            at_end = isinstance(error, UnexpectedToken) and error.token.type == "$END"
            offset = len(text) if at_end else cast("int", error.pos_in_stream)
        finally:
            builder.begin("")
    raise ParseError(_complaint(text, offset), offset=offset)


_parse_kept = lru_cache(maxsize=2048)(_parse)


def _complaint(text: str, offset: int) -> str:
    """What stands at the offset, in one sentence."""
    rest = text[offset : offset + 40].split("\n", 1)[0].strip()
    before = text[max(offset - 30, 0) : offset].rsplit("\n", 1)[-1].strip()
    behind = f" behind {before!r}" if before else ""
    return (
        f"no PTX: {rest!r} cannot stand here{behind}" if rest else f"no PTX: the statement is cut off{behind}"
    )
