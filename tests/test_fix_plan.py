"""Edits as offsets, plans of several fixes, and what the second look at the text catches."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixkit import LOCAL
from ptxguard.arch import DEFAULT_TARGETS, Target
from ptxguard.engine import all_rules, run_rules
from ptxguard.errors import PtxguardError
from ptxguard.finding import Confidence, Edit, Finding, Fix, Severity
from ptxguard.fix.edits import Change, Moves, read_text
from ptxguard.fix.plan import make_plan
from ptxguard.fix.recheck import Judged
from ptxguard.fix.repair import repair
from ptxguard.rule import CheckOptions
from ptxguard.source.analyse import Options, analyse
from sourcekit import write

TARGETS = tuple(map(Target.parse, DEFAULT_TARGETS))
SAFE = frozenset({"safe"})


def finding(path: str, *edits: Edit, replaces: str = "", **fix) -> Finding:
    made = Fix("safe", edits, replaces=replaces, **fix)
    place = edits[0].line, edits[0].column, edits[0].end_line, edits[0].end_column
    return Finding("TMA001", "r", Severity.ERROR, Confidence.HIGH, path, *place, "m", fix=made)


def edit(path: str, column: int, end: int, text: str = "cta") -> Edit:
    return Edit(path, 1, column, 1, end, text)


# Offsets --------------------------------------------------------------------------------------------


@st.composite
def texts_with_changes(draw):
    text = draw(st.text(alphabet="ab\n\u00e4\U0001f600", min_size=1, max_size=40))
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), min_size=2, max_size=8)))
    spans = list(zip(cuts[::2], cuts[1::2], strict=False))
    return text, [Change(a, b, draw(st.text(alphabet="xy\n\u00fc", max_size=3))) for a, b in spans]


@given(texts_with_changes(), st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-be-mark"]))
def test_bytes_and_places_agree_with_slices(made, encoding):
    text, changes = made
    mark = {"utf-16": b"\xff\xfe", "utf-16-be-mark": b"\xfe\xff", "utf-8-sig": b"\xef\xbb\xbf"}.get(
        encoding, b""
    )
    codec = {"utf-16": "utf-16-le", "utf-16-be-mark": "utf-16-be", "utf-8-sig": "utf-8"}.get(
        encoding, encoding
    )
    wanted, at = "", 0
    for change in changes:
        wanted += text[at : change.start] + change.text
        at = change.end
    wanted += text[at:]
    new = read_text(mark + text.encode(codec), "a").with_changes(changes)
    assert new == mark + wanted.encode(codec)
    moves = Moves(changes)
    for offset, character in enumerate(text):
        if not any(change.start <= offset < change.end for change in changes):
            assert wanted[moves.after(offset)] == character


@pytest.mark.parametrize("place", [(1, 9, 1, 10), (3, 1, 3, 2), (1, 3, 1, 2), (0, 1, 1, 1)])
def test_a_place_that_is_not_there(place):
    text = read_text(b"abc\ndef", "a")
    with pytest.raises(PtxguardError, match="has no text from"):
        text.change(Edit("a", *place, "x"))


def test_the_place_behind_the_last_line():
    assert read_text(b"abc\n", "a").change(Edit("a", 2, 1, 2, 1, "x")) == Change(4, 4, "x")


# Plans ----------------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_text("cluster cluster")
    (tmp_path / "b").write_text("cluster")
    return frozenset({"a", "b"})


def test_equal_edits_are_one(here):
    both = [
        finding("a", edit("a", 1, 8), replaces="cluster"),
        finding("b", edit("a", 1, 8), replaces="cluster"),
    ]
    plan = make_plan(both, SAFE, here)
    assert list(plan.findings) == both
    assert [(file.path, file.new) for file in plan.files] == [("a", b"cta cluster")]


def test_overlapping_edits_are_refused(here):
    first, second = (
        finding("a", edit("a", 1, 8), replaces="cluster"),
        finding("a", edit("a", 3, 8), replaces="uster"),
    )
    plan = make_plan([first, second], SAFE, here)
    assert plan.findings == (first,)
    assert "overlaps another fix" in plan.refused[0].reason
    assert plan.files[0].new == b"cta cluster"


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        (Change(1, 3, ""), Change(3, 5, ""), False),
        (Change(1, 4, ""), Change(3, 5, ""), True),
        (Change(3, 3, "x"), Change(1, 3, ""), False),
        (Change(2, 2, "x"), Change(1, 3, ""), True),
        (Change(3, 3, "x"), Change(3, 3, "y"), True),
    ],
)
def test_what_overlaps(one, other, clash):
    assert one.overlaps(other) is other.overlaps(one) is clash


def test_a_fix_that_leans_on_a_refused_one_is_refused(here):
    place = ("b", 1, 1)
    leaning = finding("a", edit("a", 1, 8), replaces="cluster", users=(place,))
    other = finding("b", edit("b", 1, 8), replaces="another text", statements=(place,))
    plan = make_plan([leaning, other], SAFE, here)
    assert plan.files == ()
    assert len(plan.refused) == 2
    plan = make_plan([leaning, replace(other, fix=replace(other.fix, replaces="cluster"))], SAFE, here)
    assert [file.new for file in plan.files] == [b"cta cluster", b"cta"]


def test_files_that_were_not_named_are_not_changed(here):
    plan = make_plan([finding("a", edit("b", 1, 8), replaces="cluster")], SAFE, frozenset({"a"}))
    assert plan.files == ()
    assert str(plan.refused[0]) == "a:1: not fixed: the text stands in b, which was not named"


# The second look --------------------------------------------------------------------------------------


def judge(overlay):
    """What `check` makes of the working directory."""
    analysis = analyse(["."], Options(TARGETS), None, overlay)
    return Judged(analysis, run_rules(analysis, all_rules(), CheckOptions(TARGETS)))


def repaired(folder, change):
    """A repair of LOCAL whose only fix is changed by hand."""
    write(folder, {"a.cu": LOCAL})

    with contextlib.chdir(folder):
        before = judge({})
        (found,) = before.findings
        return repair(before, [replace(found, fix=change(found.fix))], SAFE, judge)


def with_text(text):
    return lambda fix: replace(fix, edits=(replace(fix.edits[0], text=text),))


def test_a_right_fix_holds(tmp_path):
    done = repaired(tmp_path, lambda fix: fix)
    assert len(done.plan.files) == 1
    assert done.errors() == ()
    assert done.after.findings == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("cluster", "holds no such copy"),
        ('cta" X "', "holds no such copy"),
        (
            "cta.global.mbarrier::complete_tx::bytes [%0], [%1], 16, [%2]; //",
            "more of the statement is changed",
        ),
        ('cta", "', "holds no such copy"),
    ],
)
def test_a_wrong_fix_is_taken_back(text, reason, tmp_path):
    done = repaired(tmp_path, with_text(text))
    assert done.plan.files == ()
    (error,) = done.errors()
    assert reason in str(error)
    assert str(error).startswith("a.cu:5: fix taken back: ")
    assert done.after is done.before


def test_a_fix_that_changes_another_copy_is_taken_back(tmp_path):
    write(tmp_path, {"a.cu": LOCAL + LOCAL.replace("void k(", "void other(")})

    def both(fix):
        (first,) = fix.edits
        line = first.line + LOCAL.count("\n")
        again = replace(first, line=line, end_line=line)
        return replace(fix, edits=(first, again), replaces="clustercluster")

    with contextlib.chdir(tmp_path):
        before = judge({})
        first = before.findings[0]
        done = repair(before, [replace(first, fix=both(first.fix))], SAFE, judge)
    assert done.plan.files == ()
    assert "holds other copies" in str(done.errors()[0])


def test_the_others_are_fixed_when_one_is_taken_back(tmp_path):
    other = LOCAL.replace("void k(", "void other(")
    write(tmp_path, {"a.cu": LOCAL + other, "b.cu": LOCAL.replace("void k(", "void third(")})
    with contextlib.chdir(tmp_path):
        before = judge({})
        wrong = replace(before.findings[0], fix=with_text("cluster")(before.findings[0].fix))
        done = repair(before, [wrong, *before.findings[1:]], SAFE, judge)
    assert [file.path for file in done.plan.files] == ["a.cu", "b.cu"]
    assert done.plan.files[0].new.decode() == LOCAL + other.replace("cluster.global", "cta.global")
    assert len(done.errors()) == 1
    assert [finding.line for finding in done.after.findings] == [wrong.line]
