"""The progress bar: only on a terminal, only after a while, and gone at the end."""

from __future__ import annotations

import io
import sys

from ptxguard.output import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_nothing_where_nobody_watches(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress.progress_bar() as draw:
        assert draw is None
    assert stream.getvalue() == ""


def test_drawn_after_a_while_and_wiped(monkeypatch):
    stream, now = Terminal(), [100.0]
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with progress.progress_bar() as draw:
        draw(1, 4, "a.cu")
        assert stream.getvalue() == ""
        now[0] += 0.6
        draw(2, 4, "b.cu")
        now[0] += 0.05
        draw(3, 4, "c.cu")
    shown = stream.getvalue()
    assert "[############............] 2/4 b.cu" in shown
    assert "c.cu" not in shown
    assert shown.endswith("\r\033[K")


def test_short_work_draws_nothing(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress.progress_bar() as draw:
        draw(1, 1, "a.cu")
    assert stream.getvalue() == ""
