"""Keeps Lark's LALR tables of the PTX grammar in the user's own cache folder: building them takes 0.1 s."""

from __future__ import annotations

import hashlib
import marshal
import os
import stat
import sys
import tempfile
from pathlib import Path
from typing import Any

import lark

_DIGEST_BYTES = 32


def load_parser(grammar_file: Path, transformer: Any) -> lark.Lark:
    """A LALR parser of a grammar file that hands every rule to `transformer`.

    Tables come from the cache folder where a sound file of ours is there; otherwise they are built and, if
    the folder can be written, stored.
    """
    grammar = grammar_file.read_text(encoding="utf-8")
    folder = cache_folder()
    path = folder / f"{grammar_file.stem}-{_key(grammar)}.tables" if folder is not None else None
    tables = _read_tables(path) if path is not None else None
    if tables is None:
        tables = _build_tables(grammar)
        if path is not None:
            _store_tables(path, tables)
    # The entry of Lark's own generated parsers: the public `Lark.load` takes no transformer.
    load: Any = lark.Lark._load_from_dict
    parser: lark.Lark = load(tables["data"], tables["memo"], transformer=transformer)
    return parser


def cache_folder() -> Path | None:
    """`${XDG_CACHE_HOME:-~/.cache}/ptxguard`, or None where there is no absolute home to put it in."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 (never raises)
    return Path(base, "ptxguard") if os.path.isabs(base) else None  # noqa: PTH117 (same reason)


def _key(grammar: str) -> str:
    """Names the tables by everything that decides what they hold."""
    parts = (grammar, lark.__version__, sys.version, str(marshal.version))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _build_tables(grammar: str) -> dict[str, Any]:
    """Run Lark's grammar compiler; the result holds numbers, strings and containers only."""
    parser = lark.Lark(grammar, parser="lalr", lexer="contextual", maybe_placeholders=False)
    data, memo = parser.memo_serialize([lark.lexer.TerminalDef, lark.grammar.Rule])
    return {"data": data, "memo": memo}


def _is_ours(status: os.stat_result) -> bool:
    """Whether nobody else can have written it. Windows has no such owner: its profile folder is private."""
    return not hasattr(os, "getuid") or (status.st_uid == os.getuid() and not status.st_mode & 0o022)


def _read_tables(path: Path) -> dict[str, Any] | None:
    """Tables of a cache file; None where it is missing, foreign, a link, or does not match its digest."""
    try:
        if not _is_ours(path.parent.lstat()):
            return None
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            content = file.read() if stat.S_ISREG(status.st_mode) and _is_ours(status) else b""
    except OSError:
        return None
    digest, payload = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if not payload or hashlib.sha256(payload).digest() != digest:
        return None
    try:
        tables = marshal.loads(payload)  # noqa: S302 (numbers and strings only, digest and owner checked)
    except (EOFError, ValueError, TypeError):
        return None
    return tables if isinstance(tables, dict) and tables.keys() == {"data", "memo"} else None


def _store_tables(path: Path, tables: dict[str, Any]) -> None:
    """Write the cache file in one step; a folder that cannot be written is no error, only slower."""
    payload = marshal.dumps(tables)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_ours(path.parent.lstat()):
            return
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(hashlib.sha256(payload).digest() + payload)
            os.replace(name, path)  # noqa: PTH105
        except OSError:
            os.unlink(name)  # noqa: PTH108
    except OSError:
        return
