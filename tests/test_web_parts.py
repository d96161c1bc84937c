"""The parts that pages are put together from: parameters, words, charts, marks, diffs, opcodes, tables."""

from __future__ import annotations

import contextlib

import pytest

pytest.importorskip("flask", reason="the site needs the extra [web]")

from hypothesis import given
from hypothesis import strategies as st

import webkit
from ptxguard.errors import ConfigError
from ptxguard.memcost import find_gpu
from ptxguard.store.rows import Excerpt
from ptxguard.web.charts import Bars, bar_chart, trend_chart
from ptxguard.web.diffs import fix_view
from ptxguard.web.instruction import explain_opcode
from ptxguard.web.params import Param, parse_query
from ptxguard.web.prices import price_on, worst
from ptxguard.web.prose import inline, paragraphs
from ptxguard.web.source import Mark, SourceView, highlight, marks_of
from ptxguard.web.table import Table, render_csv
from ptxguard.web.words import clip, short, tail, visible


@given(st.text())
def test_visible_text_hides_nothing(text):
    shown = visible(text)
    assert not [char for char in shown if not char.isprintable() and char not in "\n\t"]


@given(st.text(), st.integers(10, 200))
def test_short_texts_fit_their_room(text, room):
    assert len(short(text, room)) <= room
    assert len(clip(text, room)) <= room
    assert len(tail(text, room)) <= room


@given(st.text(max_size=40))
def test_parameters_take_a_value_or_say_why_not(raw):
    for kind in ("text", "integer", "number", "choice"):
        param = Param("p", "", kind, ("a", "b"))
        with contextlib.suppress(ConfigError):
            assert str(param.parse(raw)) == raw or kind == "number"


def test_defaults_stand_where_nothing_is_given():
    params = (Param("page", "", "integer", default=1), Param("q", ""))
    assert parse_query(params, {}, empty_is_none=True) == {"page": 1, "q": None}
    assert parse_query(params, {"q": [""]}, empty_is_none=True) == {"page": 1, "q": None}


def test_prices_come_from_the_record_else_from_the_public_figure_for_the_function():
    record = webkit.source_finding().record()
    assert price_on(record, find_gpu("RTX 5090")).expected_mib == 3382
    assert price_on(record, find_gpu("RTX 5080")).expected_mib == 1670
    assert price_on(record, find_gpu("H200")) is None  # native there
    assert (
        price_on({**record, "performance": {"never runs": "written for sm_90"}}, find_gpu("RTX 5090")) is None
    )
    refuted = {"binary": {"verdict": "refuted"}}
    assert price_on({**record, "performance": refuted}, find_gpu("RTX 5090")) is None
    only_121a = {**record, "on_target": {"sm_121a": "syscall"}, "targets": {"sm_121a": "compiled"}}
    assert price_on(only_121a, find_gpu("RTX 5080")) is None  # code for sm_121a does not run there
    measured = {**record, "cost": [webkit.cost(basis="measured").record()]}
    assert price_on(measured, find_gpu("RTX 5090")).kind == "measured"
    assert price_on(measured, find_gpu("RTX 5080")).kind == "predicted"  # a measurement is of one card


def test_the_worst_price_is_the_largest_and_unknown_only_alone():
    known, unknown = (
        price_on(
            {**webkit.source_finding().record(), "cost": [webkit.cost(mib=mib).record()]},
            find_gpu("RTX 5090"),
        )
        for mib in (10.0, None)
    )
    assert worst([unknown, known, None]) == known
    assert worst([unknown]) == unknown
    assert worst([None]) is None


def test_bars_end_at_a_round_scale():
    chart = bar_chart([Bars("a", 3382, 3343, 3723, "predicted"), Bars("b", None, None, None, "unknown")])
    assert [value for _, value in chart.ticks] == [0, 1000, 2000, 3000, 4000]
    assert chart.bars[0].width == pytest.approx(340 * 3382 / 4000, abs=0.1)
    assert chart.bars[1].width == 0
    assert bar_chart([Bars("a", 0, 0, 0, "predicted")]).ticks == ((0.0, 0.0),)


@given(st.lists(st.floats(0, 1e7), min_size=1, max_size=50))
def test_a_trend_stays_in_its_frame(values):
    chart = trend_chart([("t", number, value) for number, value in enumerate(values)])
    assert all(56 <= dot.x <= 350 and 14 <= dot.y <= 134.1 for dot in chart.dots)


def test_marks_of_a_span_over_lines_leave_indentation_out():
    lines = ("asm(", '    "cp.async"', '    ".bulk" x')
    assert marks_of((2, 6), (3, 12), (1, lines)) == (Mark(2, 6, 15), Mark(3, 5, 12))
    assert marks_of((9, 1), (9, 4), (1, lines)) == ()


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=60), st.integers(1, 70), st.integers(1, 70))
def test_highlighted_source_keeps_every_character(text, left, right):
    from html import unescape
    from re import sub

    lines = tuple(text.replace("\r", " ").split("\n"))
    view = SourceView("a.cu", 5, lines, (Mark(5, left, right),))
    found = [unescape(sub(r"</?(?:span|mark)[^>]*>", "", html)) for _, _, html in highlight(view)]
    assert found == [visible(line) for line in lines]


def test_the_mark_stands_around_the_very_characters():
    view = SourceView("a.cu", 1, ('asm("cp.async");',), (Mark(1, 6, 14),))
    ((number, marked, html),) = highlight(view)
    assert (number, marked) == (1, True)
    assert '<mark><span class="s">cp.async</span></mark>' in html


def test_a_fix_becomes_a_diff_with_the_lines_of_the_file():
    record = webkit.source_finding().record()
    view = fix_view(record, [Excerpt("src/a.cu", 1, webkit.SOURCE)])
    assert view.safety == "safe"
    assert view.lines[:3] == ("--- a/src/a.cu", "+++ b/src/a.cu", "@@ -1,5 +1,5 @@")
    assert fix_view({**record, "fix": None}, []) is None
    assert fix_view(record, []).lines == ()
    assert fix_view(record, []).edits == ("src/a.cu:3:40 becomes 'cta'",)


def test_every_word_of_the_forms_of_bulk_copies_is_explained():
    from ptxguard.web.pages.atlas import _opcodes

    for opcode in _opcodes():
        explained = explain_opcode(opcode)
        assert [part.text for part in explained.parts] == opcode.split(".")
        assert all(part.known for part in explained.parts), opcode
        assert len(explained.operands) >= 2
    assert not explain_opcode("wgmma.mma_async").parts[1].known


def test_operands_stand_in_the_order_of_the_isa():
    assert explain_opcode(webkit.OPCODE).operands == (
        "[shared::cluster address]",
        "[tensor map, coordinates]",
        "[mbarrier]",
    )
    store = explain_opcode("cp.async.bulk.global.shared::cta.bulk_group")
    assert store.operands == ("[global address]", "[shared::cta address]", "size in bytes")


def test_prose_of_rules():
    blocks = list(paragraphs("One `a<b`.\n\nWhat it does\n------------\nText\nmore.\n\n    code\n"))
    assert blocks == [
        ("text", "One <code>a&lt;b</code>."),
        ("heading", "What it does"),
        ("text", "Text more."),
        ("code", "code"),
    ]
    assert inline("a `b` c") == "a <code>b</code> c"


def test_no_cell_is_a_formula():
    text = render_csv(Table(("a", "b"), [("=1+1", -3), ("@x", None), ("a,b\n", 2.5)]))
    assert text == "a,b\r\n'=1+1,-3\r\n'@x,\r\n\"a,b\n\",2.5\r\n"
