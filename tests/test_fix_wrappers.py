"""Fixes of library calls that hide a copy: the tag at the call, where the library in the tree has the other."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from fixkit import check, fix
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
