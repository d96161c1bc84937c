"""Reads NVIDIA's tool notes of a cubin: toolkit version and ptxas command line."""

from __future__ import annotations

import struct
from dataclasses import dataclass

_TYPE_CUINFO = 1000
_TYPE_TKINFO = 2000
_STRINGS_AT = 24


@dataclass(frozen=True, slots=True)
class ToolNote:
    """One `.note.nv.tkinfo`: the tool that wrote the image (nvlink first, then each ptxas)."""

    tool: str
    version: str
    command_line: str


def _notes(content: memoryview) -> list[tuple[int, memoryview]]:
    found, at = [], 0
    while at + 12 <= len(content):
        name_size, size, kind = struct.unpack_from("<III", content, at)
        start = at + 12 + (name_size + 3 & ~3)
        if start + size > len(content):
            break
        found.append((kind, content[start : start + size]))
        at = start + (size + 3 & ~3)
    return found


def read_tool_notes(content: memoryview) -> list[ToolNote]:
    """All tool notes of a `.note.nv.tkinfo` section; damaged ones are left out."""
    tools = []
    for kind, body in _notes(content):
        if kind != _TYPE_TKINFO or len(body) < _STRINGS_AT:
            continue
        offsets = struct.unpack_from("<5I", body, 4)
        strings = bytes(body[_STRINGS_AT:])
        _, tool, version, _, command = (
            strings[at : strings.find(b"\0", at)].decode("utf-8", "replace") for at in offsets
        )
        tools.append(ToolNote(tool, version, command))
    return tools


def read_toolkit(content: memoryview) -> str | None:
    """`13.0` of a version 2 `.note.nv.cuinfo`; None for the older note, which does not say."""
    for kind, body in _notes(content):
        if kind == _TYPE_CUINFO and len(body) >= 8:
            version, _, tens = struct.unpack_from("<HHI", body)
            if version >= 2:
                return f"{tens // 10}.{tens % 10}"
    return None
