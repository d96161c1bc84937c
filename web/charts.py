"""Geometry of the charts: numbers in, places in an SVG out; templates draw them with their table behind."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

# In units of the drawings, which are 360 wide so that a phone shows their text in full size.
WIDTH = 360
BAR_WIDTH = 340
BAR_STEP = 46
_BAR_TOP, _BAR_BOTTOM = 4, 20
TREND_HEIGHT = 160
# MiB; what is below is drawn as nothing.
_SMALLEST = 1e-3
_TREND_LEFT, _TREND_RIGHT, _TREND_TOP, _TREND_BOTTOM = 56, 10, 14, 26
CHAIN_STEP = 66


@dataclass(frozen=True)
class Bar:
    """One bar.

    Attributes:
        label: what it stands for.
        value: length in units; None draws no bar.
        low: begin of the whisker; None draws none.
        high: its end.
        kind: measured, declared, predicted or unknown.
        chosen: whether it is the one that the page is about.
        y: of its top.
        width: of the bar.
        low_x: of the whisker.
        high_x: of the whisker.
    """

    label: str
    value: float | None
    low: float | None
    high: float | None
    kind: str
    chosen: bool
    y: int
    width: float
    low_x: float
    high_x: float


@dataclass(frozen=True)
class BarChart:
    """Bars on one scale from 0.

    Attributes:
        bars: from the top.
        height: of the whole.
        ticks: (x, value) of the scale.
    """

    bars: tuple[Bar, ...]
    height: int
    ticks: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Bars:
    """What a bar chart is made of: label, value, low, high, kind, chosen."""

    label: str
    value: float | None
    low: float | None
    high: float | None
    kind: str
    chosen: bool = False


def bar_chart(rows: Sequence[Bars]) -> BarChart:
    """Bars with whiskers for the range that is known."""
    top = max((number for row in rows for number in (row.value, row.high) if number is not None), default=0.0)
    scale, ticks = _scale(top)
    bars = tuple(
        Bar(
            row.label,
            row.value,
            row.low,
            row.high,
            row.kind,
            row.chosen,
            y=_BAR_TOP + index * BAR_STEP,
            width=_along(row.value, scale),
            low_x=_along(row.low, scale),
            high_x=_along(row.high, scale),
        )
        for index, row in enumerate(rows)
    )
    places = tuple((_along(tick, scale), tick) for tick in ticks)
    return BarChart(bars, _BAR_TOP + len(rows) * BAR_STEP + _BAR_BOTTOM, places)


def _along(value: float | None, scale: float) -> float:
    return 0.0 if value is None or not scale else round(value / scale * BAR_WIDTH, 1)


def _scale(top: float) -> tuple[float, list[float]]:
    """A round upper end, and about four ticks."""
    if top < _SMALLEST:
        return 1.0, [0.0]
    step: float = 10 ** math.floor(math.log10(top))
    for part in (step / 5, step / 2, step, step * 2):
        if top / part <= 5:
            step = part
            break
    count = math.ceil(top / step)
    return step * count, [step * index for index in range(count + 1)]


@dataclass(frozen=True)
class Dot:
    """A point of a trend with its place."""

    label: str
    value: float
    x: float
    y: float
    run: int


@dataclass(frozen=True)
class TrendChart:
    """Values over runs.

    Attributes:
        dots: oldest first.
        line: `points` of a polyline.
        ticks: (y, value).
        width: of the whole.
        height: of the whole.
    """

    dots: tuple[Dot, ...]
    line: str
    ticks: tuple[tuple[float, float], ...]
    width: int = WIDTH
    height: int = TREND_HEIGHT


def trend_chart(points: Sequence[tuple[str, int, float]]) -> TrendChart:
    """A line over runs at equal distance.

    Args:
        points: label, number of the run and value, oldest first.
    """
    scale, ticks = _scale(max((value for _, _, value in points), default=0.0))
    room = WIDTH - _TREND_LEFT - _TREND_RIGHT
    step = room / max(1, len(points) - 1)
    tall = TREND_HEIGHT - _TREND_TOP - _TREND_BOTTOM

    def height(value: float) -> float:
        return round(_TREND_TOP + tall * (1 - value / scale), 1)

    left = _TREND_LEFT if len(points) > 1 else _TREND_LEFT + room / 2
    dots = tuple(
        Dot(label, value, round(left + index * step, 1), height(value), run)
        for index, (label, run, value) in enumerate(points)
    )
    line = " ".join(f"{dot.x},{dot.y}" for dot in dots)
    return TrendChart(dots, line, tuple((height(tick), tick) for tick in ticks))
