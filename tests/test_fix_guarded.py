"""The guarded form: what a preprocessor makes of it with an old and a new toolkit, and where it is put."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from fixkit import LOCAL, check, fix
from sourcekit import CLUSTER, CTA, copy, kernel, write

OLD = ("--cuda-min", "12.4")
TWO = kernel(copy("s", "b") + "\n  " + copy("s + 16", "b"))
HEADER = f"""// What this file is.
#ifndef ACME_LOAD_CUH_
#define ACME_LOAD_CUH_
#include <cstdint>
#if defined(ACME_WITH_MORE)
#include "more.cuh"
#endif
#define ACME_KERNEL __global__
namespace acme {{
{TWO.replace("__global__ void k(", "ACME_KERNEL void load(")}
}}
#define ACME_INLINE __forceinline__
#endif  // ACME_LOAD_CUH_
"""
BY_RUNTIME = HEADER.replace("#include <cstdint>", "#if CUDART_VERSION >= 12000\n#endif")


def preprocessed(text: str, toolkit: tuple[int, int]) -> str:
    """What a compiler that is not ours makes of a text: literals joined, directives gone."""
    gcc = shutil.which("g++") or shutil.which("clang++")
    if gcc is None:
        pytest.skip("no C++ preprocessor on PATH")
    major, minor = toolkit
    version = f"{major}0{minor}0"
    names = {"__CUDACC_VER_MAJOR__": major, "__CUDACC_VER_MINOR__": minor, "CUDART_VERSION": version}
    lines = "\n".join(line for line in text.splitlines() if "#include" not in line)
    command = [gcc, "-E", "-P", "-x", "c++", *(f"-D{k}={v}" for k, v in names.items()), "-"]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    return re.sub(r'"\s*"', "", done.stdout)


@pytest.mark.parametrize(
    ("toolkit", "opcode"), [((12, 4), CLUSTER), ((12, 6), CLUSTER), ((12, 8), CTA), ((13, 0), CTA)]
)
@pytest.mark.parametrize("source", [HEADER, BY_RUNTIME], ids=["compiler", "runtime"])
def test_the_toolkit_decides(source, toolkit, opcode, tmp_path):
    after = fix(tmp_path, {"load.cuh": source}, *OLD)["load.cuh"].decode()
    text = preprocessed(after, toolkit)
    assert text.count(opcode) == 2
    assert text.count("cp.async.bulk") == 2


def test_the_macro_is_defined_once_in_the_style_of_the_file(tmp_path):
    after = fix(tmp_path, {"load.cuh": HEADER}, *OLD)["load.cuh"].decode()
    assert after.count("#define ACME_TMA_LOAD_SPACE ") == 2  # one a branch
    assert after.count('"cp.async.bulk.shared::" ACME_TMA_LOAD_SPACE ".global') == 2
    assert "__CUDA_ARCH__" not in after
    head, _, rest = after.partition("\n// shared::cta needs CUDA 12.8")
    assert head.endswith("#include <cstdint>\n")  # behind what is certain, before what is conditional
    assert rest.index("#endif") < rest.index("namespace acme")
    block = after[len(head) : after.index("#endif\n#endif\n", len(head)) + len("#endif\n#endif\n")]
    assert after.replace(block, "").replace('" ACME_TMA_LOAD_SPACE "', "cluster") == HEADER


def test_the_version_macro_of_the_file_is_used(tmp_path):
    source = "#if CUDART_VERSION >= 12000\n#endif\n" + LOCAL
    after = fix(tmp_path, {"a.cu": source}, *OLD)["a.cu"].decode()
    assert "#if CUDART_VERSION >= 12080\n" in after
    assert "__CUDACC_VER_MAJOR__" not in after


@pytest.mark.parametrize("source", [HEADER, LOCAL, "#pragma once\n" + LOCAL, "#include <cuda.h>\n\n" + LOCAL])
def test_the_result_is_clean_and_stays(source, tmp_path):
    fix(tmp_path, {"a.cuh": source}, *OLD)
    once = (tmp_path / "a.cuh").read_bytes()
    assert b"TMA_LOAD_SPACE" in once
    ran = check(tmp_path, "--fix", *OLD)
    assert (ran.status, ran.err) == (0, "")
    assert (tmp_path / "a.cuh").read_bytes() == once


def test_a_macro_that_is_there_is_used_again(tmp_path):
    once = fix(tmp_path, {"a.cuh": LOCAL}, *OLD)["a.cuh"].decode()
    more = once + LOCAL.replace("void k(", "void k2(")
    twice = fix(tmp_path, {"a.cuh": more}, *OLD)["a.cuh"].decode()
    assert twice.count("#define TMA_LOAD_SPACE ") == 2
    assert twice == more.replace("shared::cluster.global", 'shared::" TMA_LOAD_SPACE ".global')


@pytest.mark.parametrize("test", ["__CUDA_ARCH__ >= 1200", "CUDA_VERSION >= 12080 && __CUDA_ARCH__ >= 1200"])
def test_a_macro_that_asks_for_the_target_is_not_used(test, tmp_path):
    macro = f'#if {test}\n#define WINDOW "cta"\n#else\n#define WINDOW "cluster"\n#endif\n'
    after = fix(tmp_path, {"a.cuh": macro + LOCAL}, *OLD)["a.cuh"].decode()
    assert '" TMA_LOAD_SPACE "' in after
    assert '" WINDOW "' not in after


def test_two_files_of_one_unit_may_both_define_it(tmp_path):
    helper = HEADER.replace("ACME_KERNEL void load(", "ACME_KERNEL void other(")
    files = {
        "a.cu": f'#include "b.cuh"\n#include <cuda.h>\n#if CUDA_VERSION\n#endif\n{HEADER}',
        "b.cuh": helper,
    }
    after = fix(tmp_path, files, *OLD)
    joined = after["b.cuh"] + after["a.cu"].replace(b"ACME_LOAD_CUH_", b"ACME_A_CU_")
    assert preprocessed(joined.decode(), (12, 4)).count(CLUSTER) == 4
    assert preprocessed(joined.decode(), (13, 0)).count(CTA) == 4


def test_raw_strings_and_line_ends(tmp_path):
    raw = LOCAL.replace('asm volatile("', 'asm volatile(R"x(').replace('%2];" ::', '%2];)x" ::')
    source = raw.replace("\n", "\r\n")
    after = fix(tmp_path, {"a.cu": source}, *OLD)["a.cu"].decode()
    assert 'shared::)x" TMA_LOAD_SPACE R"x(.global' in after
    assert after.count("\n") == after.count("\r\n")


def test_code_inside_a_string_is_not_guarded(tmp_path):
    made = f'const char *code = R"(\n{LOCAL})";\n'
    write(tmp_path, {"make.cc": made})
    ran = check(tmp_path, "--fix", *OLD)
    assert ran.status == 1
    assert (tmp_path / "make.cc").read_text() == made


FATAL = 'find_package(CUDAToolkit REQUIRED)\nif (CUDAToolkit_VERSION VERSION_LESS {})\n  message(FATAL_ERROR "no")\nendif()\n'


@pytest.mark.parametrize(
    ("cmake", "said"),
    [
        (FATAL.format("12.1"), "CMakeLists.txt:2 accepts CUDA 12.1, which lacks shared::cta"),
        (FATAL.format('"12.4.1"'), "CMakeLists.txt:2 accepts CUDA 12.4"),
        ("find_package(CUDAToolkit 12.0 REQUIRED)\n", "CMakeLists.txt:1 accepts CUDA 12.0"),
        (FATAL.format("12.8"), ""),
        (FATAL.format("12.1").replace("FATAL_ERROR", "STATUS"), ""),
        (FATAL.format("12.1") + "find_package(CUDAToolkit 12.9)\n", ""),
    ],
)
def test_a_minimum_of_the_build_files_is_asked_about(cmake, said, tmp_path):
    write(tmp_path, {"a.cu": LOCAL, "CMakeLists.txt": cmake})
    ran = check(tmp_path, "--diff")
    assert said in ran.err
    assert ("--cuda-min" in ran.err) is bool(said)
    assert "--cuda-min" not in check(tmp_path, "--diff", "--cuda-min", "12.8").err


@pytest.mark.ptxas
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
def test_nvcc_takes_it(tmp_path):
    source = "#include <cuda_runtime.h>\n" + LOCAL
    fix(tmp_path, {"a.cu": source}, *OLD)
    command = ["nvcc", "-cubin", "-arch=sm_120a", "-std=c++17", "-o", "a.cubin", "a.cu"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert b"__cuda_syscall" not in (tmp_path / "a.cubin").read_bytes()
