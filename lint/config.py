"""Reads the nearest `ptxguard.toml` or `[tool.ptxguard]` of `pyproject.toml`."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptxguard.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Key of the file -> what it has to be.
_TEXT, _TEXTS, _BOOLEAN, _TEXTS_BY_GLOB, _TEXT_BY_CODE = "text", "list", "boolean", "globs", "codes"
KEYS = {
    "targets": _TEXTS,
    "cuda-min": _TEXT,
    "defines": _TEXTS,
    "public": _TEXTS,
    "exclude": _TEXTS,
    "force-exclude": _BOOLEAN,
    "select": _TEXTS,
    "ignore": _TEXTS,
    "per-file-ignores": _TEXTS_BY_GLOB,
    "severity": _TEXT_BY_CODE,
    "gpu": _TEXTS,
    "fail-on": _TEXT,
    "fail-above": _TEXT,
    "min-severity": _TEXT,
    "min-confidence": _TEXT,
    "baseline": _TEXT,
    "cache-dir": _TEXT,
    "site-url": _TEXT,
}
_NAMES = ("ptxguard.toml", "pyproject.toml")


@dataclass(frozen=True)
class Config:
    """What a file says.

    Attributes:
        path: the file, or None where there is none.
        values: key of `KEYS` -> value of its kind.
    """

    path: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)

    def paths(self, key: str) -> tuple[str, ...]:
        """Globs or paths of a key, seen from the working directory."""
        return tuple(self.placed(text) for text in self.values.get(key, ()))

    def placed(self, text: str) -> str:
        """A glob or path of the file, seen from the working directory; a bare name means any place."""
        if self.path is None or text.startswith(("*", "/")) or "/" not in text.rstrip("/"):
            return text
        return self.file(text)

    def file(self, text: str) -> str:
        """A file or folder that the file names, seen from the working directory."""
        folder = Path(self.path).resolve().parent if self.path is not None else Path.cwd()
        return os.path.relpath(folder / text).replace(os.sep, "/")


def find_config(named: str | None = None, start: Path | None = None) -> Config:
    """The configuration that holds for a folder.

    Args:
        named: a file that the user names instead; its `[tool.ptxguard]` or its top level is read.
        start: where to begin; None is the working directory.

    Raises:
        ConfigError: a file is no TOML, or holds a key or a value that is not known.
    """
    if named is not None:
        text, table = _read(Path(named))
        in_project = "tool" in table or Path(named).name == "pyproject.toml"
        section = table.get("tool", {}).get("ptxguard") if in_project else table
        if section is None:
            raise ConfigError("has no [tool.ptxguard]; add it or name another file", path=named)
        return Config(named, _checked(section, named, text))
    folder = (start or Path.cwd()).resolve()
    for place in (folder, *folder.parents):
        for name in _NAMES:
            path = place / name
            if not path.is_file():
                continue
            if name == "pyproject.toml" and not _speaks_to_us(path):
                continue
            text, table = _read(path)
            section = table.get("tool", {}).get("ptxguard") if name == "pyproject.toml" else table
            if section is not None:
                shown = os.path.relpath(path).replace(os.sep, "/")
                return Config(shown, _checked(section, shown, text))
    return Config()


def _speaks_to_us(path: Path) -> bool:
    """Whether a file can hold a section of ours; the others are not parsed at every run of a hook."""
    try:
        return b"ptxguard" in path.read_bytes()
    except OSError:
        return True  # the reader says why


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    """A file as text and as tables."""
    import tomllib  # only where there is something to read

    try:
        text = path.read_text("utf-8")
        return text, tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", path=str(path)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"is no TOML: {error}", path=str(path)) from None


def _checked(section: object, path: str, text: str) -> dict[str, Any]:
    if not isinstance(section, dict):
        raise ConfigError("[tool.ptxguard] is no table", path=path)
    for key, value in section.items():
        kind = KEYS.get(key)
        if kind is None:
            raise ConfigError(f"unknown key {key!r}; {_suggestion(key)}", path=path, line=_line_of(key, text))
        if not _FITS[kind](value):
            message = f"{key} wants {_WANTED[kind]}, not {value!r}"
            raise ConfigError(message, path=path, line=_line_of(key, text))
    return section


def _line_of(key: str, text: str) -> int | None:
    """1-based line that sets a key of ours or opens its table; None where none plainly does."""
    ours = "tool.ptxguard" if "[tool.ptxguard" in text else ""
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("["):
            table = line.partition("]")[0].strip(" \t[")
            above, _, name = table.rpartition(".")
        else:
            above, name = table, line.partition("=")[0].split(".")[0]
        if above == ours and name.strip(" \t\"'") == key:
            return number
    return None


def _suggestion(key: str) -> str:
    near = difflib.get_close_matches(key.replace("_", "-"), KEYS, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else f"the keys are {', '.join(KEYS)}"


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


_FITS: dict[str, Callable[[object], bool]] = {
    _TEXT: _is_text,
    _TEXTS: _are_texts,
    _BOOLEAN: lambda value: isinstance(value, bool),
    _TEXTS_BY_GLOB: lambda value: isinstance(value, dict) and all(map(_are_texts, value.values())),
    _TEXT_BY_CODE: lambda value: isinstance(value, dict) and all(map(_is_text, value.values())),
}
_WANTED = {
    _TEXT: "a text in quotes",
    _TEXTS: "a list of texts",
    _BOOLEAN: "true or false",
    _TEXTS_BY_GLOB: 'a table of lists, "glob" = ["CODE"]',
    _TEXT_BY_CODE: 'a table, CODE = "error", "warning", "note" or "off"',
}
