"""The library calls: PTX in memory, files, what they raise; nothing is imported before they are named."""

from __future__ import annotations

import gc
import io
import subprocess
import sys
import tracemalloc
import zipfile

import pytest

import ptxguard
from binkit import DATA
from ptxguard.binary.inventory import inventory
from ptxguard.errors import ConfigError, ParseError

OPCODE = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"

# Line 10 holds the copy, its mnemonic in column 2 (behind one tab).
MODULE = f""".version 8.7
.target sm_90
.address_size 64
.shared .align 128 .b8 tile[4096];
.shared .align 8 .b64 full;
.visible .entry pull(.param .u64 map)
{{
\t.reg .b32 %r<4>; .reg .b64 %rd<2>;
\tmov.u32 %r1, tile; mov.u32 %r2, full; ld.param.u64 %rd1, [map];
\t{OPCODE} [%r1], [%rd1, {{%r3, %r3}}], [%r2];
\tret;
}}
"""

SOURCE = """__global__ void pull(const float4* from) {
  __shared__ alignas(128) float box[256];
  __shared__ alignas(8) unsigned long long full;
  unsigned dst = (unsigned)__cvta_generic_to_shared(box), bar = (unsigned)__cvta_generic_to_shared(&full);
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];"
      ::"r"(dst), "l"(from), "r"(bar) : "memory");
}
"""


def test_ptx_in_memory_gives_the_findings_of_the_command():
    (finding,) = ptxguard.check_ptx(MODULE, "sm_120")
    assert (finding.code, finding.severity.word, finding.path) == ("TMA001", "error", "<ptx>")
    assert (finding.line, finding.column) == (10, 2)
    assert finding.opcode == OPCODE
    assert finding.syscall == "__cuda_syscall_cp_async_bulk_tensor_2d_tile_unicast"
    assert finding.address["verdict"] == "local"
    assert finding.fix.safety == "safe"
    (edit,) = finding.fix.edits
    line = MODULE.splitlines()[edit.line - 1]
    assert line[edit.column - 1 : edit.end_column - 1] == "cluster"


def test_the_repaired_module_and_other_targets_are_clean():
    assert ptxguard.check_ptx(MODULE.replace("shared::cluster", "shared::cta"), "sm_120") == []
    assert ptxguard.check_ptx(MODULE, "sm_100a") == []
    # PTX for sm_90a is assembled for that target alone (PTX ISA, ".target").
    assert ptxguard.check_ptx(MODULE.replace("sm_90", "sm_90a"), "sm_120") == []


def test_names_and_cards_are_the_callers():
    (finding,) = ptxguard.check_ptx(MODULE, "sm_121a", name="kernel_7.ptx", gpus=("GB10",))
    assert finding.path == "kernel_7.ptx"
    assert [cost.gpu for cost in finding.cost] == ["GB10"]


@pytest.mark.parametrize("text", ["", "int main() {}", MODULE.rsplit("}", 1)[0]])
def test_text_that_is_no_module_raises_with_its_place(text):
    with pytest.raises(ParseError) as caught:
        ptxguard.check_ptx(text, "sm_120")
    assert caught.value.path == "<ptx>"
    assert caught.value.line is not None


def test_unknown_targets_and_cards_raise():
    with pytest.raises(ConfigError):
        ptxguard.check_ptx(MODULE, "rtx5090")
    with pytest.raises(ConfigError):
        ptxguard.check_ptx(MODULE, "sm_120", gpus=("RTX 9",))


def test_memory_does_not_grow_with_calls():
    def call(number):
        ptxguard.check_ptx(f"{MODULE.replace('pull', f'pull_{number}')}// {'x' * 10_000}", "sm_120")

    for number in range(50):
        call(number)
    tracemalloc.start()
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(50, 250):
        call(number)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 100_000  # 200 texts are 2 MB: none of them is kept


def test_paths_give_findings_sites_and_errors(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pull.cu").write_text(SOURCE)
    done = ptxguard.check_paths([tmp_path / "pull.cu"])
    assert [(finding.code, finding.path, finding.line) for finding in done.findings] == [
        ("TMA001", "pull.cu", 6)
    ]
    assert len(done.sites) == 1
    assert done.errors == ()
    assert ptxguard.check_paths(["pull.cu"], targets=["sm_90a"]).findings == ()
    assert ptxguard.check_paths(["pull.cu"], ignore=["TMA001"]).findings == ()
    (error,) = ptxguard.check_paths(["none.cu"]).errors
    assert error.path == "none.cu"


def test_importing_the_package_imports_nothing_else():
    code = "import sys, ptxguard; print(sorted(m for m in sys.modules if m.startswith(('ptxguard', 'lark'))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [name for name in eval(done.stdout) if "__editable__" not in name] == ["ptxguard"]
    assert {"check_paths", "check_ptx"} <= set(dir(ptxguard))
    with pytest.raises(AttributeError):
        ptxguard.check_everything  # noqa: B018 (the access is what is tested)


# scan_bytes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["copies.zstd.fatbin", "copies.o", "facts.sm_120a.cubin", "copies.ptx"])
def test_bytes_are_scanned_as_files_are(name):
    path = DATA / name
    scanned = ptxguard.scan_bytes(path.read_bytes(), name=str(path))
    stock = inventory(str(path))
    assert scanned.artifacts == stock.artifacts
    assert scanned.errors == stock.errors == ()
    assert scanned.findings
    assert {finding.path for finding in scanned.findings} == {str(path)}


def test_an_archive_in_memory_is_opened():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.write(DATA / "copies.o", "pkg/lib.so")
    scanned = ptxguard.scan_bytes(packed.getvalue())
    assert [artifact.member for artifact in scanned.artifacts] == ["pkg/lib.so"]
    assert scanned.findings


@pytest.mark.parametrize("cut", [100, 1000, 3000])
def test_bytes_that_are_cut_off_are_an_error_and_never_clean(cut):
    scanned = ptxguard.scan_bytes((DATA / "copies.zstd.fatbin").read_bytes()[:cut])
    assert scanned.errors
