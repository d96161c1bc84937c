"""Small programs after public reports, broken and repaired: the right verdict of each, confirmed by nvcc."""

from __future__ import annotations

import contextlib
import functools
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from ptxguard.arch import DEFAULT_TARGETS, Target
from ptxguard.engine import all_rules, run_rules
from ptxguard.rule import CheckOptions
from ptxguard.source.analyse import Options, analyse

FOLDER = Path(__file__).parent / "data" / "cases"
TARGETS = tuple(map(Target.parse, DEFAULT_TARGETS))


@dataclass(frozen=True)
class Case:
    """A way to compile a program: its findings as "severity fix", and the driver function that nvcc leaves in.

    `syscall` is None where the form does not assemble for sm_120a.
    """

    file: str
    defines: str
    findings: tuple[str, ...]
    syscall: str | None
    cluster: str = "undecided"
    address: str = "local"

    @property
    def id(self) -> str:
        return f"{self.file} {self.defines}".strip()

    @property
    def options(self) -> dict[str, str | None]:
        words = (word.removeprefix("-D").partition("=") for word in self.defines.split())
        return {name: value if equals else None for name, equals, value in words}


CASES = [
    Case("plain_pull", "", ("error safe",), "bulk_unicast"),
    Case("plain_pull", "-DFIX", (), ""),
    Case("state_4d", "", ("error safe",), "bulk_tensor_4d_tile_unicast", "one"),
    Case("state_4d", "-DFIX", (), "", "one"),
    Case("register_split", "", ("error safe",), "bulk_tensor_2d_tile_unicast"),
    Case("register_split", "-DFIX", (), ""),
    Case("register_split", "-DNO_LOAD", (), ""),
    Case("two_callers", "", ("warning None",), "bulk_tensor_1d_tile_unicast", "larger", "unknown"),
    Case("two_callers", "-DFIX", (), "", "larger", "unknown"),
    Case("two_callers", "-DPEER=0", ("error safe",), "bulk_tensor_1d_tile_unicast", "larger"),
    Case("two_callers", "-DPEER=0 -DFIX", (), "", "larger"),
    Case("two_callers", "-DPEER=1", ("note None",), "bulk_tensor_1d_tile_unicast", "larger", "peer"),
    Case("two_callers", "-DPEER=1 -DFIX", (), "", "larger", "peer"),
    Case("toolkit_guard", "", ("error safe",), "bulk_tensor_2d_tile_unicast", "one"),
    Case("toolkit_guard", "-DFIX", (), "", "one"),
    Case("toolkit_guard", "-DCLUSTER_X=2", ("error safe",), "bulk_tensor_2d_tile_unicast", "larger"),
    Case("toolkit_guard", "-DCLUSTER_X=2 -DFIX", (), "", "larger"),
    Case("pair_multicast", "", ("note None",), "bulk_tensor_2d_tile_multicast", "larger"),
    *(Case("peer_operations", f"-DOP={n}", (), "", "larger", "peer") for n in (1,)),
    *(Case("peer_operations", f"-DOP={n}", (), "", "larger") for n in (2, 3, 4, 5, 6, 7)),
    Case("peer_operations", "-DOP=8", ("warning None",), None, "larger"),
    Case("peer_operations", "-DOP=9", ("error safe",), "bulk_tensor_4d_im2col_unicast", "larger"),
    Case("window_macro", "", ("error safe",), "bulk_tensor_2d_tile_unicast", "one"),
    Case("window_macro", "-DCTA_WINDOW", (), "", "one"),
]


@functools.cache
def alone():
    """A copy of the programs outside any checkout, so that nothing else is evidence."""
    return shutil.copytree(FOLDER, Path(tempfile.mkdtemp()) / "cases")


EVERY = pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])


def check(case: Case):
    with contextlib.chdir(alone()):
        found = analyse([f"{case.file}.cu"], Options(targets=TARGETS, defines=case.options))
    assert found.errors == ()
    return found, run_rules(found, all_rules(), CheckOptions(TARGETS, targets_named=True))


def defined(case: Case, name: str) -> bool:
    return name in case.options


@EVERY
def test_findings(case):
    found, findings = check(case)
    shown = tuple(f"{f.severity.word} {f.fix.safety if f.fix else None}" for f in findings)
    assert shown == case.findings


@EVERY
def test_verdicts_of_the_copy_that_is_compiled(case):
    found, _ = check(case)
    compiled = [site for site in found.sites if set(site.targets.values()) == {"compiled"}]
    holds_copy = not (defined(case, "NO_LOAD") or case.options.get("OP") in ("2", "3", "4", "6"))
    assert len(compiled) == holds_copy
    for site in compiled:
        assert site.cluster.verdict == case.cluster
        # a store to global memory has no destination in shared memory: nothing is claimed about it
        assert site.address.verdict == (
            case.address if site.copy.destination_space != "global" else "unknown"
        )


@pytest.mark.ptxas
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
@EVERY
def test_nvcc_confirms_the_syscall(case, tmp_path):
    cubin = tmp_path / "case.cubin"
    command = ["nvcc", "-arch=sm_120a", "-cubin", *case.defines.split(), "-o", str(cubin), f"{case.file}.cu"]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, timeout=120, check=False)
    assert (done.returncode == 0) == (case.syscall is not None)
    if case.syscall is not None:
        names = {name.decode() for name in re.findall(rb"__cuda_syscall_\w+", cubin.read_bytes())}
        assert names == ({f"__cuda_syscall_cp_async_{case.syscall}"} if case.syscall else set())


def test_the_note_names_the_mapping_of_the_address():
    (finding,) = check(Case("two_callers", "-DPEER=1", (), ""))[1]
    assert "mapa maps the address to another CTA" in finding.address["reason"]
    assert ("two_callers.cu", 25) in {(e.path, e.line) for e in finding.evidence if e.kind == "address"}


def test_the_reproducer_is_reported_at_its_mnemonic_with_the_macro_that_decides():
    found, (finding,) = check(Case("window_macro", "", (), ""))
    text = (FOLDER / "window_macro.cu").read_text().splitlines()
    line = next(i for i, line in enumerate(text, 1) if "cp.async.bulk.tensor" in line)
    assert (finding.line, finding.column) == (line, text[line - 1].index("cp.async") + 1)
    macro = next(i for i, line in enumerate(text, 1) if '"shared::cluster"' in line)
    assert [(e.path, e.line) for e in finding.evidence if e.kind == "macro"] == [("window_macro.cu", macro)]
    (edit,) = finding.fix.edits
    assert (edit.line, text[edit.line - 1][edit.column - 1 : edit.end_column - 1]) == (macro, "cluster")
    assert edit.text == "cta"


def test_a_gate_on_the_toolkit_leaves_the_cluster_form_to_old_toolkits_only():
    case = Case("toolkit_guard", "-DFIX", (), "")
    with contextlib.chdir(alone()):
        found = analyse(["toolkit_guard.cu"], Options(TARGETS, (12, 3), case.options))
    cluster = next(site for site in found.sites if site.copy.destination_space == "shared::cluster")
    cta = next(site for site in found.sites if site.copy.destination_space == "shared::cta")
    assert set(cluster.targets.values()) == {"excluded"}  # no toolkit below 12.8 knows sm_12x
    assert set(cta.targets.values()) == {"compiled"}
    assert cta.cta_form_missing_below is None
