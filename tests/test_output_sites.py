"""The inventory for people: every copy with what is known about it."""

from __future__ import annotations

from ptxguard.output.report import Report
from ptxguard.output.sites import render_text
from ptxguard.output.style import Style
from sitekit import CLUSTER_1D, make_site


def lines_of(*sites):
    return "".join(render_text(Report(sites=sites), Style())).splitlines()


def test_sites_stand_under_their_file():
    lines = lines_of(make_site(), make_site(CLUSTER_1D, before="\n"), make_site(path="other.cuh"))
    heads = [line for line in lines if not line.startswith(" ")]
    assert heads == ["copy.cuh", "other.cuh", "3 bulk copies"]
    assert any(line.split() == ["3:17", CLUSTER_1D] for line in lines)


def test_what_the_guards_say_is_told_apart():
    compiled = make_site(
        targets={"sm_90a": "compiled", "sm_120": "excluded"},
        on_target={"sm_90a": "native", "sm_120": "syscall"},
    )
    assert "native on sm_90a" in lines_of(compiled)[2]
    unknown = make_site(targets={"sm_120": "unknown"}, on_target={"sm_120": "syscall"})
    assert "syscall on sm_120 if its guard holds" in lines_of(unknown)[2]
    excluded = make_site(targets={"sm_120": "excluded"}, on_target={"sm_120": "syscall"})
    assert "not compiled for the targets asked for" in lines_of(excluded)[2]
