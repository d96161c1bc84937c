"""Helpers with a twin for the own CTA: what is said of them, and callers that are switched."""

from __future__ import annotations

import json
import shutil

import pytest

from fixkit import check
from sourcekit import copy, kernel, write

HELPER = f"""__device__ void load(unsigned dst, const void *src, unsigned bar) {{
#if __CUDA_ARCH__ >= 1000
  {copy()}
#else
  report("load needs sm_100");
#endif
}}
"""
TWIN = (
    HELPER.replace("load", "load_cta").replace("shared::cluster", "shared::cta").replace(">= 1000", ">= 900")
)
HEADER = "__device__ void report(const char *);\n" + HELPER
CALL = "load(s, src, b);"
MAPPED = 'unsigned p; asm("mapa.shared::cluster.u32 %0, %1, 1;" : "=r"(p) : "r"(s)); load(p, src, b);'
HEAD = "__global__ void __cluster_dims__(2, 1, 1) {}(const void *src)"
OWN = '#include "load.cuh"\n' + kernel(CALL, HEAD.format("own"))
PEER = '#include "load.cuh"\n' + kernel(MAPPED, HEAD.format("peer"))


def findings(folder, *options):
    ran = check(folder, "--output-format", "json", *options)
    return json.loads(ran.out)["findings"]


def read(folder, files):
    return {name: (folder / name).read_text() for name in files}


def test_a_twin_is_named_and_the_copy_itself_is_still_the_fix(tmp_path):
    write(tmp_path, {"load.cuh": HEADER + TWIN, "own.cu": OWN})
    (found,) = findings(tmp_path)
    assert (
        "its callers, which all pass their own CTA's memory, may call load_cta (load.cuh:11)"
        in found["message"]
    )
    (edit,) = found["fix"]["edits"]
    assert (edit["path"], edit["text"]) == ("load.cuh", "cta")


def test_callers_are_switched_on_request(tmp_path):
    files = {"load.cuh": HEADER + TWIN, "own.cu": OWN}
    write(tmp_path, files)
    ran = check(tmp_path, "--fix", "--switch-callers")
    assert "fixed 1 copy in 1 file" in ran.err
    assert read(tmp_path, files) == {**files, "own.cu": OWN.replace("load(s", "load_cta(s")}
    ran = check(tmp_path, "--fix", "--switch-callers")  # nobody calls the helper now
    assert ran.status == 0
    assert read(tmp_path, files) == {**files, "own.cu": OWN.replace("load(s", "load_cta(s")}


def test_a_helper_for_both_is_switched_where_the_memory_is_its_own(tmp_path):
    files = {"load.cuh": HEADER + TWIN, "own.cu": OWN, "peer.cu": PEER}
    write(tmp_path, files)
    (found,) = findings(tmp_path)
    assert (found["severity"], found["fix"], found["address"]["destination"]) == ("note", None, "peer")
    assert "the callers that pass their own CTA's memory (own.cu:6) may call load_cta" in found["message"]
    check(tmp_path, "--fix")
    assert read(tmp_path, files) == files
    check(tmp_path, "--fix", "--switch-callers")
    assert read(tmp_path, files) == {**files, "own.cu": OWN.replace("load(s", "load_cta(s")}


def test_a_helper_for_both_without_a_twin(tmp_path):
    write(tmp_path, {"load.cuh": HEADER, "own.cu": OWN, "peer.cu": PEER})
    (found,) = findings(tmp_path, "--switch-callers")
    assert "(own.cu:6) could call a helper of their own, spelled shared::cta" in found["message"]
    assert found["fix"] is None


OTHERS = {
    "other operands": TWIN.replace('"r"(dst)', '"r"(dst + 16)'),
    "another size": TWIN.replace("1024", "2048"),
    "other parameters": TWIN.replace("const void *src", "const char *src"),
    "more than the copy": TWIN.replace("#else", "  __syncthreads();\n#else"),
    "only for later targets": TWIN.replace(">= 900", ">= 1200"),
    "another scope": f"namespace other {{\n{TWIN}}}\n",
}


@pytest.mark.parametrize("twin", OTHERS.values(), ids=OTHERS.keys())
def test_what_is_no_twin(twin, tmp_path):
    assert twin != TWIN
    write(tmp_path, {"load.cuh": HEADER + twin, "own.cu": OWN})
    (found,) = findings(tmp_path)
    assert "load_cta" not in found["message"]


@pytest.mark.ptxas
@pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not on PATH")
def test_the_statement_of_the_twin_is_what_is_verified(tmp_path):
    write(tmp_path, {"load.cuh": HEADER + TWIN, "own.cu": OWN})
    ran = check(tmp_path, "--fix", "--switch-callers", "--verify", "--target", "sm_120a")
    assert "load.cuh:4:17 the statement in a generated kernel" in ran.err
    assert "sm_120a: driver calls 1 -> 0" in ran.err
