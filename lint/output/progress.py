"""A progress bar on standard error, only where a terminal watches and the work takes long."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[int, int, str], None]

DELAY_S = 0.5
INTERVAL_S = 0.1
BAR = 24


@contextmanager
def progress_bar() -> Iterator[Progress | None]:
    """A function `(done, total, what)` that draws, or None where nobody watches; wiped at the end."""
    if not sys.stderr.isatty():
        yield None
        return
    started = time.monotonic()
    drawn = 0.0

    def draw(done: int, total: int, what: str) -> None:
        nonlocal drawn
        now = time.monotonic()
        if now - started < DELAY_S or now - drawn < INTERVAL_S:
            return
        drawn = now
        full = BAR * done // max(total, 1)
        sys.stderr.write(f"\r\033[K[{'#' * full}{'.' * (BAR - full)}] {done}/{total} {what[-48:]}")
        sys.stderr.flush()

    try:
        yield draw
    finally:
        if drawn:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
