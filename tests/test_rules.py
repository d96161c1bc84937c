"""Rules: the contract's table of proofs row by row, targets, prices, fixes, every example of every rule."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from ptxguard.arch import DEFAULT_TARGETS, Target
from ptxguard.engine import all_rules, find_rule
from ptxguard.finding import Confidence, Evidence, Severity
from ptxguard.location import SourceFile, Span
from ptxguard.memcost import DEFAULT_GPUS, find_gpu
from ptxguard.model import AddressVerdict, AsmText
from ptxguard.rule import HEADINGS, CheckOptions
from sitekit import (
    CLUSTER_1D,
    CLUSTER_2D,
    COMPILED,
    LARGER,
    LOCAL,
    ONE,
    ONE_UNSEEN,
    PEER,
    SYSCALL,
    UNDECIDED,
    UNKNOWN,
    bulk_copy,
    find_span,
    make_site,
)

TARGETS = tuple(Target.parse(name) for name in DEFAULT_TARGETS)
GPUS = tuple(find_gpu(name) for name in DEFAULT_GPUS)
OPTIONS = CheckOptions(targets=TARGETS, gpus=GPUS)
MULTICAST_2D = CLUSTER_2D + ".multicast::cluster"
CTA_2D = CLUSTER_2D.replace("::cluster", "::cta")


def check(code, *sites, **changes):
    return list(find_rule(code).check(sites, replace(OPTIONS, **changes)))


def only(code, *sites, **changes):
    (finding,) = check(code, *sites, **changes)
    return finding


@pytest.mark.parametrize(
    ("address", "cluster", "severity", "safety"),
    [
        (LOCAL, ONE, Severity.ERROR, "safe"),
        (LOCAL, LARGER, Severity.ERROR, "safe"),
        (LOCAL, UNDECIDED, Severity.ERROR, "safe"),
        (AddressVerdict("local", "unknown", "r"), UNDECIDED, Severity.ERROR, "safe"),
        (AddressVerdict("local", "peer", "r"), ONE, Severity.WARNING, None),
        (UNKNOWN, ONE, Severity.ERROR, "unsafe"),
        (UNKNOWN, ONE_UNSEEN, Severity.WARNING, None),
        (UNKNOWN, LARGER, Severity.WARNING, None),
        (UNKNOWN, UNDECIDED, Severity.WARNING, None),
        (PEER, ONE, Severity.NOTE, None),
        (PEER, LARGER, Severity.NOTE, None),
        (AddressVerdict("peer", "local", "r"), UNDECIDED, Severity.NOTE, None),
    ],
)
def test_two_proofs_decide_severity_and_fix(address, cluster, severity, safety):
    finding = only("TMA001", make_site(address=address, cluster=cluster))
    assert finding.severity == severity
    assert (finding.fix.safety if finding.fix else None) == safety


@pytest.mark.parametrize(
    ("address", "severity", "safety"),
    [(LOCAL, Severity.ERROR, "safe"), (UNKNOWN, Severity.NOTE, None), (PEER, Severity.NOTE, None)],
)
def test_public_header_needs_the_address_proof(address, severity, safety):
    finding = only("TMA001", make_site(address=address, cluster=ONE, public=True))
    assert finding.severity == severity
    assert (finding.fix.safety if finding.fix else None) == safety


def test_public_header_gets_one_note_a_file_that_lists_every_copy():
    first = make_site(address=UNKNOWN, public=True)
    second = make_site(CLUSTER_1D, address=UNKNOWN, public=True, before="\n" * 5)
    other = make_site(path="other.cuh", address=UNKNOWN, public=True)
    notes = check("TMA001", first, second, other)
    assert [(note.path, note.line) for note in notes] == [("copy.cuh", 2), ("other.cuh", 2)]
    assert ("copy.cuh", 7) in [(link.path, link.line) for link in notes[0].evidence if link.kind == "asm"]


def test_the_fix_replaces_exactly_the_word():
    site = make_site()
    (edit,) = only("TMA001", site).fix.edits
    line = site.span.file.line_text(edit.line)
    assert edit.line == edit.end_line == 2
    assert line[edit.column - 1 : edit.end_column - 1] == "cluster"
    fixed = line[: edit.column - 1] + edit.text + line[edit.end_column - 1 :]
    assert "cp.async.bulk.tensor.2d.shared::cta.global.tile" in fixed


def test_a_word_cut_between_literals_is_replaced_piece_by_piece():
    file = SourceFile("cut.cu", 'asm("x.shared::clu" "ster.global");')
    pieces = (find_span(file, "clu"), find_span(file, "ster"))
    edits = only("TMA001", make_site(space_spans=pieces)).fix.edits
    assert [(edit.column, edit.end_column, edit.text) for edit in edits] == [(16, 19, "cta"), (22, 26, "")]


@pytest.mark.parametrize("pieces", [(), ("void load",)])
def test_no_fix_where_the_word_cannot_be_rewritten(pieces):
    site = make_site()
    spans = tuple(Span(site.span.file, 0, len(text)) for text in pieces)
    finding = only("TMA001", replace(site, space_spans=spans))
    assert finding.severity == Severity.ERROR
    assert finding.fix is None


def test_below_cuda_12_8_the_advice_is_a_guard_and_no_bare_fix():
    site = make_site()
    assert only("TMA001", site, cuda_min=(12, 4)).fix is None  # not without the statement around the copy
    site = replace(site, asm=AsmText("", (), (("copy.cuh", 2, 3),)))
    finding = only("TMA001", site, cuda_min=(12, 4))
    assert [edit.text for edit in finding.fix.edits][1:] == ['" TMA_LOAD_SPACE "']
    assert "under a guard on CUDA >= 12.8" in finding.message
    assert only("TMA001", make_site(), cuda_min=(12, 8)).fix is not None


def test_guards_that_nobody_decides_give_a_warning_with_their_condition():
    guard = Evidence("guard", "copy.cuh", 1, "defined(USE_TMA)")
    site = make_site(targets=dict.fromkeys(DEFAULT_TARGETS, "unknown"), evidence=(guard,))
    finding = only("TMA001", site)
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.LOW)
    assert "`defined(USE_TMA)`" in finding.message
    peer = only("TMA001", replace(site, address=PEER))
    assert peer.severity == Severity.NOTE


def test_one_compiled_target_is_enough_for_an_error():
    targets = dict.fromkeys(DEFAULT_TARGETS, "unknown") | {"sm_121a": "compiled"}
    finding = only("TMA001", make_site(targets=targets))
    assert finding.severity == Severity.ERROR
    assert "on sm_121a" in finding.message
    assert [cost.gpu for cost in finding.cost] == ["GB10"]


@pytest.mark.parametrize(
    "site",
    [
        make_site(targets=dict.fromkeys(DEFAULT_TARGETS, "excluded")),
        make_site(targets={"sm_90a": "compiled"}, on_target={"sm_90a": "native"}),
        make_site(CTA_2D, on_target=dict.fromkeys(DEFAULT_TARGETS, "native")),
        make_site(on_target=dict.fromkeys(DEFAULT_TARGETS, "rejected")),
        make_site(MULTICAST_2D),
        make_site("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"),
    ],
)
def test_silent_where_no_unicast_copy_calls_the_driver(site):
    assert check("TMA001", site) == []


def test_symbol_price_and_side_effects():
    finding = only("TMA001", make_site(uses_setmaxnreg=True))
    assert finding.syscall == "__cuda_syscall_cp_async_bulk_tensor_2d_tile_unicast"
    mib = {cost.gpu: (cost.bytes_per_thread, cost.mib, cost.expected_mib) for cost in finding.cost}
    # (14608 - 1024) B x 170 SM x 1536 threads = 3382.7 MiB: the public RTX 5090 measurement
    assert mib["RTX 5090"] == (14608, 3382.7, 3382)
    assert mib["GB10"] == (14608, 955.1, 954)
    assert all(cost.basis == "public measurement" for cost in finding.cost)
    assert finding.performance["registers_at_least"] == 24
    assert finding.performance["setmaxnreg_ignored"] is True
    assert only("TMA001", make_site()).performance["setmaxnreg_ignored"] is False


def test_multicast_is_a_note_without_fix_whatever_is_proven():
    for address in (LOCAL, UNKNOWN, PEER):
        finding = only("TMA002", make_site(MULTICAST_2D, address=address))
        assert (finding.severity, finding.fix) == (Severity.NOTE, None)
        assert finding.syscall == "__cuda_syscall_cp_async_bulk_tensor_2d_tile_multicast"
    assert check("TMA002", make_site()) == []
    assert check("TMA002", make_site(MULTICAST_2D, targets=dict.fromkeys(SYSCALL, "excluded"))) == []


def test_refused_form_is_a_warning_only_for_named_targets():
    opcode = CLUSTER_2D.replace("2d.", "2d.cta_group::1.")
    site = make_site(opcode, on_target=dict.fromkeys(SYSCALL, "rejected"))
    named = only("TMA003", site, targets_named=True)
    assert named.severity == Severity.WARNING
    assert ".cta_group" in named.message
    assert only("TMA003", site).severity == Severity.NOTE
    assert check("TMA003", replace(site, targets=dict.fromkeys(COMPILED, "excluded"))) == []
    assert check("TMA003", replace(site, targets=dict.fromkeys(COMPILED, "unknown"))) == []
    odd = replace(site, copy=bulk_copy(CLUSTER_2D + ".foo", unknown_modifiers=("foo",)))
    assert ".foo" in only("TMA003", odd).message


def test_cta_form_below_its_toolkit_only_with_a_lower_minimum():
    site = make_site(CTA_2D, cta_form_missing_below=(12, 6))
    assert only("TMA004", site, cuda_min=(12, 4)).severity == Severity.WARNING
    message = only("TMA004", site, cuda_min=(12, 6)).message
    assert "needs CUDA 12.8, but its guards let it through with CUDA 12.6" in message
    assert check("TMA004", site) == []
    assert check("TMA004", site, cuda_min=(12, 8)) == []
    assert check("TMA004", replace(site, cta_form_missing_below=None), cuda_min=(12, 4)) == []


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.meta.code)
def test_documentation_has_the_fixed_headings(rule):
    headings = re.findall(r"^(.+)\n-+$", rule.documentation, re.MULTILINE)
    assert tuple(headings) == HEADINGS
    bodies = re.split(r"^.+\n-+$", rule.documentation, flags=re.MULTILINE)
    assert all(len(body.strip()) > 30 for body in bodies)
    assert rule.meta.cases


def test_codes_and_names_are_unique():
    metas = [rule.meta for rule in all_rules()]
    assert len({meta.code for meta in metas}) == len({meta.name for meta in metas}) == len(metas)


EXAMPLES = [
    pytest.param(rule, example, id=f"{rule.meta.code}: {example.title}")
    for rule in all_rules()
    for example in rule.examples
]
MARK = re.compile(r"// !([A-Z]+\d+) (error|warning|note)$")


def marks(source):
    lines = enumerate(source.splitlines(), start=1)
    return sorted((line, *found.groups()) for line, text in lines if (found := MARK.search(text)))


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_marked_lines_are_reported_and_no_other(rule, example, tmp_path, monkeypatch):
    from ptxguard.engine import run_rules
    from ptxguard.source.analyse import Options, analyse

    monkeypatch.chdir(tmp_path)
    (tmp_path / "example.cu").write_text(example.source)
    if example.cmake:
        (tmp_path / "CMakeLists.txt").write_text(example.cmake)
    targets = tuple(map(Target.parse, example.targets)) or TARGETS
    public = ("example.cu",) if example.public else ()
    analysis = analyse(["example.cu"], Options(targets, example.cuda_min, {}, public))
    assert analysis.errors == ()
    options = CheckOptions(targets, bool(example.targets), example.cuda_min, GPUS)
    findings = run_rules(analysis, all_rules(), options)
    assert sorted((f.line, f.code, f.severity.word) for f in findings) == marks(example.source)
    fixes = [finding.fix for finding in findings if finding.fix is not None]
    assert len(fixes) == (example.fixed is not None)
    for fix in fixes:
        edit = fix.edits[-1]  # before it stands at most the definition of a macro
        line = example.source.splitlines()[edit.line - 1]
        fixed = line[: edit.column - 1] + edit.text + line[edit.end_column - 1 :]
        assert MARK.sub("", fixed).strip() == example.fixed


CLAIMS = [
    pytest.param(example, claim, id=f"{claim.target}: {example.title}")
    for rule in all_rules()
    for example in rule.examples
    for claim in example.claims
]


@pytest.mark.ptxas
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
@pytest.mark.parametrize(("example", "claim"), CLAIMS)
def test_ptxas_does_what_the_example_claims(example, claim, tmp_path):
    source, cubin = tmp_path / "example.cu", tmp_path / "example.cubin"
    source.write_text(example.source)
    arguments = ["nvcc", "-cubin", f"-arch={claim.target}", "-std=c++17", "-o", str(cubin), str(source)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=120)
    if claim.error is not None:
        assert done.returncode != 0
        assert claim.error in done.stdout + done.stderr
        return
    assert done.returncode == 0, done.stderr
    symbols = set(re.findall(rb"__cuda_syscall_\w+", cubin.read_bytes()))
    assert symbols == ({claim.syscall.encode()} if claim.syscall else set())
