"""Text for people out of hostile or long values: kernel names, sizes, times."""

from __future__ import annotations

# Characters that change how their neighbours are shown (Unicode UAX #9), whatever Python calls printable.
_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_KEPT = frozenset("\n\t")
MIB_PER_GIB = 1024


def visible(text: str) -> str:
    """The text with every character that would hide or turn another one written as `⟨U+202E⟩`."""
    if text.isprintable() and text.isascii():
        return text
    return "".join(_shown(char) for char in text)


def _shown(char: str) -> str:
    if char in _KEPT or (char.isprintable() and char not in _TURNING):
        return char
    return f"⟨U+{ord(char):04X}⟩"


def short(text: str, room: int = 120) -> str:
    """The text, or its two ends where it is longer than the room; the whole stands on its own page."""
    if len(text) <= room:
        return text
    head = room * 2 // 3
    return f"{text[:head]}…{text[-(room - head - 1) :]}"


def clip(text: str, room: int) -> str:
    """The text, or its beginning where it is longer than the room: for sentences."""
    return text if len(text) <= room else f"{text[: room - 1]}…"


def tail(text: str, room: int) -> str:
    """The text, or its end where it is longer than the room: of a place the end says most."""
    return text if len(text) <= room else f"…{text[len(text) - max(room, 2) + 1 :]}"


def count_of(number: int, one: str, many: str = "") -> str:
    """`1 kernel`, `7,970 kernels`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def mib_words(mib: float | None) -> str:
    """`3,382 MiB`, `unknown`."""
    return "unknown" if mib is None else f"{mib:,.0f} MiB"


def gib_words(mib: float) -> str:
    """`3.30 GiB`."""
    return f"{mib / MIB_PER_GIB:,.2f} GiB"


def range_words(low: float | None, high: float | None) -> str:
    """`3,342.9 to 3,723.4 MiB`; empty where nothing is known."""
    if low is None or high is None:
        return ""
    return f"{low:,.1f} MiB" if low == high else f"{low:,.1f} to {high:,.1f} MiB"


def when(created: str) -> str:
    """`2026-12-01 05:00 UTC` of `2026-12-01T05:00:00Z`."""
    return f"{created[:10]} {created[11:16]} UTC" if len(created) >= 16 and created[10] == "T" else created
