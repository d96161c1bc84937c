"""Fixes of library calls that hide a copy: the tag at the call, where the library in the tree has the other."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from fixkit import check, fix
from ptxguard.verify.assemble import read_assembled
from sourcekit import write

CALL = "cuda::ptx::cp_async_bulk(cuda::ptx::{}, cuda::ptx::space_global, box, from, 1024, &full);"
HEAD = "#include <cuda/ptx>\n#include <cuda/std/type_traits>\n"
KERNEL = """
__global__ void __cluster_dims__(2, 1, 1) pull(const float *from, float *out) {
  __shared__ alignas(128) float box[256];
  __shared__ alignas(8) uint64_t full;
  CALL
  out[threadIdx.x] = box[threadIdx.x];
}
"""


def source(tag: str = "space_cluster", before: str = "") -> str:
    return HEAD + before + KERNEL.replace("CALL", CALL.format(tag))


def with_version(number: str) -> tuple[str, str]:
    return "-D", f"CCCL_VERSION={number}"


NEW, OLD = with_version("2008000"), with_version("2007000")


@pytest.mark.parametrize("tag", ["space_cluster", "space_cluster_t{}"])
def test_the_tag_is_changed(tag, tmp_path):
    text = source(tag)
    after = fix(tmp_path, {"a.cu": text}, *NEW)["a.cu"].decode()
    assert after == text.replace("::space_cluster", "::space_shared")
    assert check(tmp_path, "--fix", *NEW).status == 0


@pytest.mark.parametrize(
    "options", [(), OLD, (*NEW, "--cuda-min", "12.4")], ids=["no version", "old version", "old toolkit"]
)
def test_not_where_the_other_tag_is_not_known_to_be_there(options, tmp_path):
    text = source()
    assert fix(tmp_path, {"a.cu": text}, *options)["a.cu"].decode() == text


def test_a_tag_that_stands_elsewhere_stays(tmp_path):
    text = source("where", "constexpr auto where = cuda::ptx::space_cluster;\n").replace(
        "cuda::ptx::where", "where"
    )
    write(tmp_path, {"a.cu": text})
    assert check(tmp_path, "--fix", *NEW).status == 1
    assert (tmp_path / "a.cu").read_text() == text


@pytest.mark.ptxas
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
def test_nvcc_takes_the_other_tag(tmp_path):
    write(tmp_path, {"a.cu": source()})
    ran = check(tmp_path, "--fix", "--verify", *NEW)
    assert ran.status == 0
    assert "the form that the call hides, in a generated kernel" in ran.err
    assert "sm_121, sm_121a, sm_121f: driver calls 1 -> 0" in ran.err
    command = ["nvcc", "-cubin", "-arch=sm_120a", "-std=c++17", "-o", "a.cubin", "a.cu"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert b"__cuda_syscall" not in (tmp_path / "a.cubin").read_bytes()


# The experimental helpers ----------------------------------------------------------------------------

BARRIER = """#include <cuda/barrier>
namespace cde = cuda::device::experimental;
__global__ void pull(const __grid_constant__ CUtensorMap map, const float *from, float *out, size_t x) {
  __shared__ alignas(128) float box[256];
  __shared__ cuda::barrier<cuda::thread_scope_block> full;
  CALL
  out[threadIdx.x] = box[threadIdx.x];
}
"""
PLAIN = "cde::cp_async_bulk_global_to_shared(box, from, 1024, full);"
TILE = "cuda::device::experimental::cp_async_bulk_tensor_2d_global_to_shared(box + 4, &map, x + 1, 0, full);"
HANDLE = "cuda::device::barrier_native_handle(full)"
MODERN = {
    PLAIN: "cuda::ptx::cp_async_bulk(cuda::ptx::space_shared, cuda::ptx::space_global, box, from, 1024, "
    f"{HANDLE});",
    TILE: "cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_shared, cuda::ptx::space_global, box + 4, &map, "
    f"{{int(x + 1), 0}}, {HANDLE});",
}


@pytest.mark.parametrize("call", MODERN)
def test_an_experimental_helper_becomes_what_it_does(call, tmp_path):
    text = BARRIER.replace("CALL", call)
    assert fix(tmp_path, {"a.cu": text}, *NEW)["a.cu"].decode() == text.replace(call, MODERN[call])
    assert check(tmp_path, *NEW).status == 0
    assert fix(tmp_path, {"a.cu": text}, *OLD)["a.cu"].decode() == text


@pytest.mark.ptxas
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
def test_nvcc_makes_the_same_of_both_where_nothing_calls_the_driver(tmp_path):
    text = "#include <cuda.h>\n" + BARRIER.replace("CALL", f"{PLAIN}\n  {TILE}")
    files = {"old.cu": text, **fix(tmp_path, {"new.cu": text}, *NEW)}
    write(tmp_path, files)
    codes = {}
    for target in ("sm_90a", "sm_120a"):
        for name in files:
            command = ["nvcc", "-cubin", f"-arch={target}", "-std=c++17", "-w", "-o", "a.cubin", name]
            subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
            codes[target, name] = read_assembled((tmp_path / "a.cubin").read_bytes())
    assert codes["sm_90a", "old.cu"].code == codes["sm_90a", "new.cu"].code
    assert len(codes["sm_120a", "old.cu"].calls) == 2
    assert codes["sm_120a", "new.cu"].calls == ()
