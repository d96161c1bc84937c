"""Guards around an asm statement: for which targets and toolkits it is compiled, macros of the tree included."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from ptxguard.arch import DEFAULT_TARGETS
from ptxguard.location import SourceFile
from ptxguard.source.guards import CppFile
from ptxguard.source.macros import ptx_isa
from sourcekit import CLUSTER, CTA, copy, look, places, verdicts

ARCHES = ("sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_103a", "sm_110a", *DEFAULT_TARGETS)


def guarded(condition: str, before: str = "", branch: str = "") -> str:
    """A copy under `#if condition` (or behind `branch` of it)."""
    return (
        f"{before}\n__device__ void load(unsigned dst, const void *src, unsigned bar) {{\n"
        f"#{condition}\n{branch}\n{copy()}\n#endif\n}}\n"
    )


def names(text: str) -> set[str]:
    """Targets by short names: `12x` is every default target."""
    found: set[str] = set()
    for word in text.split():
        found.update(DEFAULT_TARGETS if word == "12x" else [f"sm_{word}"])
    return found


# condition -> the targets for which nvcc compiles what stands under it (sm_90 to sm_121f).
ARCH_GUARDS = [
    ("ifdef __CUDA_ARCH__", "90 90a 100 100a 100f 103a 110a 12x"),
    ("if __CUDA_ARCH__ >= 900", "90 90a 100 100a 100f 103a 110a 12x"),
    ("if __CUDA_ARCH__ >= 1000", "100 100a 100f 103a 110a 12x"),
    ("if __CUDA_ARCH__ == 1200", "120 120a 120f"),
    ("if (__CUDA_ARCH__ / 10) == 121", "121 121a 121f"),
    ("if (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1000)", "90 90a"),
    ("if defined(__CUDA_ARCH__) and not (__CUDA_ARCH__ < 1200)", "12x"),
    ("if __CUDA_ARCH__ > 1000 && __CUDA_ARCH__ != 1100", "103a 12x"),
    ("if defined(__CUDA_ARCH_FEAT_SM90_ALL)", "90a"),
    ("ifdef __CUDA_ARCH_FEAT_SM120_ALL", "120a"),
    ("if defined __CUDA_ARCH_FEAT_SM120_ALL || defined __CUDA_ARCH_FEAT_SM121_ALL", "120a 121a"),
    ("if defined(__CUDA_ARCH_SPECIFIC__)", "90a 100a 103a 110a 120a 121a"),
    ("if __CUDA_ARCH_SPECIFIC__ == 1210", "121a"),
    ("if __CUDA_ARCH_FAMILY_SPECIFIC__ == 1200", "120a 120f"),
    ("ifdef __CUDA_ARCH_FAMILY_SPECIFIC__", "90a 100a 100f 103a 110a 120a 120f 121a 121f"),
    ("if !defined(__CUDA_ARCH_FAMILY_SPECIFIC__)", "90 100 120 121"),
    ("ifndef __CUDA_ARCH__", ""),
    ("if 0", ""),
    ("if 1", "90 90a 100 100a 100f 103a 110a 12x"),
    ("if defined(__HIP_PLATFORM_AMD__) || defined(USE_ROCM)", ""),
    ("ifndef USE_ROCM", "90 90a 100 100a 100f 103a 110a 12x"),
    ("ifdef __CUDACC__", "90 90a 100 100a 100f 103a 110a 12x"),
    ("ifdef\t__CUDA_ARCH_FEAT_SM120_ALL", "120a"),
    ("ifndef\t__CUDA_ARCH_FEAT_SM120_ALL", "90 90a 100 100a 100f 103a 110a 120 120f 121 121a 121f"),
    ("  ifdef  __CUDA_ARCH_FEAT_SM120_ALL  // here", "120a"),
    ("ifdef __CUDA_ARCH_FEAT_SM120_ALL/* here */", "120a"),
    ("if!defined(__CUDA_ARCH_FEAT_SM120_ALL)&&__CUDA_ARCH__==1200", "120 120f"),
    ("if\t__CUDA_ARCH__ \\\n  == 1200", "120 120a 120f"),
    ("if(__CUDA_ARCH__==1200)", "120 120a 120f"),
]
WITH_ARCH_GUARD = pytest.mark.parametrize(
    ("condition", "compiled"), [pytest.param(*row, id=row[0]) for row in ARCH_GUARDS]
)


@WITH_ARCH_GUARD
def test_architecture_guards(tmp_path, condition, compiled):
    site = look(tmp_path, guarded(condition), targets=ARCHES).only
    assert {name for name, verdict in site.targets.items() if verdict == "compiled"} == names(compiled)
    assert verdicts(site) <= {"compiled", "excluded"}


@WITH_ARCH_GUARD
def test_the_other_branch(tmp_path, condition, compiled):
    site = look(tmp_path, guarded(condition, branch="#else"), targets=ARCHES).only
    assert {name for name, verdict in site.targets.items() if verdict == "excluded"} == names(compiled)
    assert verdicts(site) <= {"compiled", "excluded"}


@pytest.mark.ptxas
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100f", "sm_120", "sm_120a", "sm_120f", "sm_121a"])
def test_nvcc_takes_the_same_branches(tmp_path, arch):
    # `nvcc -E` leaves out most architecture macros, so the branches show themselves as kernels.
    lines = [f'#{condition}\nextern "C" __global__ void guard_{number}() {{}}\n#endif'
             for number, (condition, _) in enumerate(ARCH_GUARDS)]  # fmt: skip
    (tmp_path / "a.cu").write_text("\n".join(["#ifdef __CUDA_ARCH__", *lines, "#endif\n"]))
    command = ["nvcc", f"-arch={arch}", "-ptx", "-o", "a.ptx", "a.cu"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, timeout=60)
    taken = {int(number) for number in re.findall(r"\.entry guard_(\d+)", (tmp_path / "a.ptx").read_text())}
    assert taken == {n for n, (_, compiled) in enumerate(ARCH_GUARDS) if arch in names(compiled)}


@pytest.mark.parametrize(
    ("condition", "cuda_min", "compiled"),
    [
        # sm_12x exists from CUDA 12.8 on: the other side of that guard is dead there.
        ("if CUDA_VERSION >= 12080", None, True),
        ("if CUDA_VERSION < 12080", None, False),
        ("if CUDA_VERSION < 12080", (12, 0), False),
        ("if CUDART_VERSION >= 12080", (11, 8), True),
        ("if CUDART_VERSION < 12090", None, True),
        ("if CUDART_VERSION < 12090", (13, 0), False),
        ("if CUDART_VERSION >= 13000", None, True),
        (
            "if __CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 8)",
            None,
            True,
        ),
        (
            "if __CUDACC_VER_MAJOR__ < 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ < 8)",
            None,
            False,
        ),
        ("if __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1208", None, True),
        ("if __CUDACC_VER_MAJOR__ >= 12", (12, 0), True),
        ("if __CUDACC_VER_MAJOR__ < 12", None, False),
        ("if __cccl_ptx_isa >= 860", None, True),
        ("if __cccl_ptx_isa < 860", None, False),
        ("if __cccl_ptx_isa >= 900", None, True),
        ("if __cccl_ptx_isa < 900", (13, 0), False),
        ("if defined(CUDA_VERSION) && CUDA_VERSION >= 12000", None, True),
    ],
)
def test_toolkit_guards(tmp_path, condition, cuda_min, compiled):
    site = look(tmp_path, guarded(condition), cuda_min=cuda_min, targets=("sm_120", "sm_120a")).only
    assert verdicts(site) == {"compiled" if compiled else "excluded"}


@pytest.mark.parametrize(
    ("toolkit", "isa"),
    [((11, 8), 780), ((12, 0), 800), ((12, 4), 840), ((12, 5), 850), ((12, 6), 850), ((12, 8), 870),
     ((12, 9), 880), ((13, 0), 900), ((13, 1), 910)],
)  # fmt: skip
def test_ptx_isa_of_a_toolkit(toolkit, isa):
    """PTX ISA, "Release Notes": 8.5 came with CUDA 12.5 and 12.6, 8.6 with 12.7, 8.7 with 12.8."""
    assert ptx_isa(toolkit) == isa


MACROS = [
    pytest.param({}, "#define USE 1", "if USE", "compiled", id="set to one"),
    pytest.param({}, "#define USE 0", "if USE", "excluded", id="set to zero"),
    pytest.param({}, "#define USE", "ifdef USE", "compiled", id="empty is defined"),
    pytest.param({}, "#define USE 1\n#undef USE", "ifdef USE", "excluded", id="undefined again"),
    pytest.param({}, "#define USE 0\n#undef USE\n#define USE 1", "if USE", "compiled", id="the last one counts"),
    pytest.param({}, "#define USE 1  // always", "if USE", "compiled", id="with a line comment"),
    pytest.param({}, "#define USE /* never */ 0", "if USE", "excluded", id="with a block comment"),
    pytest.param({}, "#define USE (1 && \\\n  1)", "if USE", "compiled", id="spliced value"),
    pytest.param({}, "#\tdefine\tUSE\t1", "if USE", "compiled", id="tabs"),
    pytest.param({}, "", "ifdef USE", "unknown", id="nobody defines it"),
    pytest.param({}, "", "if USE", "unknown", id="nobody gives it a value"),
    pytest.param({}, "", "ifndef USE", "compiled", id="absent as everybody must assume"),
    pytest.param({"USE": None}, "", "ifdef USE", "compiled", id="-D"),
    pytest.param({"USE": None}, "", "if USE == 1", "compiled", id="-D without a value is one"),
    pytest.param({"USE": "0"}, "", "if USE", "excluded", id="-D with a value"),
    pytest.param({"USE": "OTHER"}, "#define OTHER 1", "if USE", "compiled", id="-D with a macro of the tree"),
    pytest.param({"USE": "1"}, "#ifndef USE\n#define USE 0\n#endif", "if USE", "compiled", id="-D and a default"),
    pytest.param({}, "#ifndef USE\n#define USE 1\n#endif", "if USE", "compiled", id="default of the file"),
    pytest.param({}, "#if __CUDA_ARCH__ >= 1200\n#define USE\n#endif", "ifdef USE", "compiled", id="derived"),
    pytest.param({}, "#if __CUDA_ARCH__ < 1200\n#define USE\n#endif", "ifdef USE", "excluded", id="derived away"),
    pytest.param({}, "#define A B\n#define B __CUDA_ARCH__", "if A >= 1200", "compiled", id="chain"),
    pytest.param({}, "#define A B\n#define B A", "if A", "excluded", id="cycle"),
    pytest.param({}, "#define A defined(B)\n#define B", "if A", "compiled", id="defined in a value"),
    pytest.param({}, "#define AT(x, y) ((x) * 10 == y)", "if AT(120, __CUDA_ARCH__)", "compiled", id="function"),
    pytest.param({}, "#define AT(x) (x)", "if AT(0)", "excluded", id="function that is false"),
    pytest.param({}, "#if defined(LATER)\n#define USE\n#endif\n#define LATER", "ifdef USE", "excluded",
                 id="order within a file"),
    pytest.param({}, "#ifdef X\n#define USE 1\n#else\n#define USE 0\n#endif", "if USE", "unknown",
                 id="else of a macro that nobody defines"),
    pytest.param({"X": None}, "#ifdef X\n#define USE 1\n#else\n#define USE 0\n#endif", "if USE", "compiled",
                 id="and with -D"),
    pytest.param({}, "#if __has_include(<cuda/ptx>)\n#define USE\n#endif", "ifdef USE", "unknown", id="has_include"),
]  # fmt: skip


@pytest.mark.parametrize(("defines", "before", "condition", "verdict"), MACROS)
def test_macros(tmp_path, defines, before, condition, verdict):
    site = look(tmp_path, guarded(condition, before), defines=defines, targets=("sm_120", "sm_120a")).only
    assert verdicts(site) == {verdict}


@pytest.mark.parametrize(
    ("condition", "arches"),
    [
        ("ifdef HAS_TMA_12X", "12x"),
        ("if LIB_ARCH_AT_LEAST(121)", "121 121a 121f"),
        ("if LIB_ENABLED", "120a 121a"),
    ],
)
def test_macros_derived_in_a_header_of_the_tree(tmp_path, condition, arches):
    header = """#pragma once
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200 && CUDA_VERSION >= 12080
#  define HAS_TMA_12X 1
#endif
#define LIB_ARCH_AT_LEAST(n) (__CUDA_ARCH__ >= (n) * 10)
#if defined(HAS_TMA_12X) && defined(__CUDA_ARCH_SPECIFIC__)
#  define LIB_ENABLED 1
#else
#  define LIB_ENABLED 0
#endif
"""
    files = {"lib/config.h": header, "src/a.cu": guarded(condition, '#include "../lib/config.h"')}
    site = look(tmp_path, files, targets=ARCHES).only
    assert {name for name, verdict in site.targets.items() if verdict == "compiled"} == names(arches)


def test_a_header_that_nobody_includes_defines_nothing(tmp_path):
    files = {"a.cu": guarded("ifdef USE"), "other/b.cu": '#include "b.h"\n', "other/b.h": "#define USE\n"}
    assert verdicts(look(tmp_path, files).only) == {"unknown"}


def test_a_macro_that_one_includer_defines_first_is_unknown_in_the_header(tmp_path):
    files = {
        "a.cu": '#define USE\n#include "load.cuh"\n',
        "b.cu": '#include "load.cuh"\n',
        "load.cuh": guarded("ifdef USE"),
    }
    assert verdicts(look(tmp_path, files).only) == {"unknown"}


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        pytest.param(["#if 0", "#elif 1", "COPY", "#endif"], "compiled", id="elif"),
        pytest.param(["#if 1", "#elif 1", "COPY", "#endif"], "excluded", id="elif behind a taken branch"),
        pytest.param(["#if 0", "#elif 0", "#else", "COPY", "#endif"], "compiled", id="else behind elif"),
        pytest.param(
            ["#if 0", "#if 1", "COPY", "#endif", "#endif"], "excluded", id="inside of a dead branch"
        ),
        pytest.param(["#if 1", "#if 0", "#else", "COPY", "#endif", "#endif"], "compiled", id="nested else"),
        pytest.param(["#if 0", "#endif", "COPY"], "compiled", id="behind endif"),
        pytest.param(["#ifdef NOPE", "#elifdef __CUDA_ARCH__", "COPY", "#endif"], "compiled", id="elifdef"),
        pytest.param(["#ifdef NOPE", "#elifndef __CUDA_ARCH__", "COPY", "#endif"], "excluded", id="elifndef"),
        pytest.param(["#if 0 // ' \" /*", "*/", "#endif", "COPY"], "compiled", id="quotes in a comment"),
        pytest.param(["#if 0", "it's dead", "#endif", "COPY"], "compiled", id="an apostrophe in dead text"),
        pytest.param(["/*", "#if 0", "*/", "COPY"], "compiled", id="directive in a comment"),
        pytest.param(["#endif", "COPY"], "compiled", id="a stray endif"),
    ],
)
def test_branches(tmp_path, lines, verdict):
    text = "\n".join(copy() if line == "COPY" else line for line in lines)
    site = look(tmp_path, f"__device__ void f(unsigned dst, void *src, unsigned bar) {{\n{text}\n}}\n").only
    assert verdicts(site) == {verdict}


def test_the_evidence_lists_the_guards_and_not_the_include_guard(tmp_path):
    text = f"""#ifndef LOAD_H_  // include guard
#define LOAD_H_ // same
#if __CUDA_ARCH__ >= 900
__device__ void load(unsigned dst, const void *src, unsigned bar) {{
#ifdef NEW
#else
  {copy()}
#endif
}}
#endif
#endif
"""
    site = look(tmp_path, {"load.cuh": text}).only
    assert {line for _, line in places(site, "guard")} == {3, 6}


@pytest.mark.parametrize(("defines", "space"), [({}, CLUSTER), ({"CTA": None}, CTA)])
def test_a_macro_in_the_text_holds_under_its_own_guard(tmp_path, defines, space):
    text = """#ifdef CTA
#define DST "shared::cta"
#else
#define DST "shared::cluster"
#endif
__device__ void load(unsigned dst, const void *src, unsigned bar) {
  asm volatile("cp.async.bulk." DST ".global.mbarrier::complete_tx::bytes [%0], [%1], 16, [%2];"
               :: "r"(dst), "l"(src), "r"(bar));
}
"""
    found = look(tmp_path, text, defines=defines)
    compiled = {site.copy.opcode for site in found.sites if verdicts(site) == {"compiled"}}
    assert compiled == {space}


NOT_FOLLOWED = pytest.mark.xfail(strict=True, reason="conditions in C++ itself are not evaluated yet")


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        pytest.param("if constexpr (false) { COPY }", "excluded", id="if constexpr", marks=NOT_FOLLOWED),
        pytest.param("if constexpr (true) { COPY }", "compiled", id="if constexpr that is true"),
        pytest.param("NV_IF_TARGET(NV_PROVIDES_SM_90, (COPY))", "compiled", id="NV_IF_TARGET"),
        pytest.param(
            "NV_IF_TARGET(NV_IS_HOST, (COPY))", "excluded", id="NV_IF_TARGET of the host", marks=NOT_FOLLOWED
        ),
    ],
)
def test_guards_that_are_no_directives(tmp_path, body, verdict):
    text = body.replace("COPY", copy())
    site = look(tmp_path, f"__device__ void f(unsigned dst, void *src, unsigned bar) {{ {text} }}\n").only
    assert verdicts(site) == {verdict}


def test_definitions_of_a_file():
    text = '#define A 1\n#define F(x, y) x##y\n#define S "a" \\\n  "b"\n#undef A\n#define EMPTY\n'
    found = CppFile(SourceFile("a.h", text)).definitions
    assert [(d.name, d.parameters, d.value and " ".join(d.value.split()), d.line) for d in found] == [
        ("A", None, "1", 1),
        ("F", ("x", "y"), "x##y", 2),
        ("S", None, '"a" "b"', 3),
        ("A", None, None, 5),
        ("EMPTY", None, "", 6),
    ]
