"""Operands of asm statements: what instructions write, which windows addresses belong to, what callers give."""

from __future__ import annotations

import pytest

import ptxguard
from ptxguard.semantics import address_space, written_operands
from ptxguard.source.ptx import parse_asm


def only(text):
    (instruction,) = parse_asm(text)
    return instruction


# PTX ISA, the syntax of each instruction.
@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("add.s32 %0, %1, %2;", ["%0"]),
        ("ld.global.v2.u32 {%0, %1}, [%2];", ["%0", "%1"]),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];", ["%0", "%1", "%2", "%3"]),
        ("mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;", ["p"]),
        ("mbarrier.arrive.shared.b64 %0, [%1];", ["%0"]),
        ("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];", ["_"]),
        ("mbarrier.init.shared.b64 [%0], %1;", []),
        ("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;", []),
        ("st.shared.u32 [%0], %1;", []),
        ("red.global.add.u32 [%0], %1;", []),
        ("atom.global.add.u32 %0, [%1], %2;", ["%0"]),
        ("bar.sync %0, %1;", []),
        ("setmaxnreg.inc.sync.aligned.u32 %0;", []),
        ("cp.async.wait_group %0;", []),
        ("cp.async.cg.shared.global [%0], [%1], 16;", []),
        ("wmma.store.d.sync.aligned.row.m16n16k16.f32 [%0], {%1}, %2;", []),
        ("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];", ["%0"]),
        ("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};", []),
        ("nanosleep.u32 %0;", []),
    ],
)
def test_what_an_instruction_writes(text, written):
    assert [operand.text for operand in written_operands(only(text))] == written


@pytest.mark.parametrize(
    ("text", "space"),
    [
        ("ld.shared.u32 %0, [%1];", "shared"),
        ("ld.acquire.gpu.global.u32 %0, [%1];", "global"),
        ("ld.acquire.gpu.u32 %0, [%1];", ""),
        ("ldmatrix.sync.aligned.m8n8.x1.b16 {%0}, [%1];", ""),
        ("stmatrix.sync.aligned.m8n8.x1.shared::cta.b16 [%0], {%1};", "shared::cta"),
        ("mbarrier.init.b64 [%0], 1;", ""),
        ("cp.async.ca.shared.global [%0], [%1], 4;", "shared"),
        ("cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1], 16, [%2];", None),
        ("prefetch.global.L2 [%0];", None),
        ("add.s32 %0, %1, %2;", None),
    ],
)
def test_the_space_of_an_address(text, space):
    assert address_space(only(text)) == space


def codes_of(tmp_path, monkeypatch, text, **options):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "code.cu").write_text(text)
    done = ptxguard.check_paths(["."], **options)
    assert done.errors == ()
    return [(finding.code, finding.line) for finding in done.findings]


LOAD = 'asm("ld.shared.u32 %0, [%1];" : "=r"(x) : "l"({}));'
MATRIX = 'asm("ldmatrix.sync.aligned.m8n8.x1.b16 {{%0}}, [%1];" : "=r"(x) : "r"({}));'
GENERIC = "const int* p"
WINDOWS = {
    "pointer parameter": (GENERIC, LOAD, "p", True),
    "arithmetic on a pointer": (GENERIC, LOAD, "p + 4", True),
    "pointer as an integer": (GENERIC, LOAD, "(uint64_t)p", True),
    "pointer in a variable": (GENERIC, "auto q = (uint64_t)p; " + LOAD, "q", True),
    "array in shared memory": (GENERIC, "__shared__ int box[4]; " + LOAD, "box", True),
    "address of an element": (GENERIC, "__shared__ int box[4]; " + LOAD, "&box[2]", True),
    "converted in place": (GENERIC, LOAD, "__cvta_generic_to_shared(p)", False),
    "converted into a variable": (GENERIC, "size_t q = __cvta_generic_to_shared(p); " + LOAD, "q", False),
    "an integer that nobody explains": ("uint64_t p", LOAD, "p", False),
    "offset without a space": (GENERIC, MATRIX, "(uint32_t)__cvta_generic_to_shared(p)", True),
    "offset plus bytes": (GENERIC, MATRIX, "cast_smem_ptr_to_uint(p) + 16", True),
    "offset in a variable": (GENERIC, "unsigned q = cast_smem_ptr_to_uint(p); q += 16; " + MATRIX, "q", True),
    "a register that nobody explains": ("unsigned p", MATRIX, "p", False),
    "a variable with two stories": (
        GENERIC,
        "uint64_t q = (uint64_t)p; q = __cvta_generic_to_shared(p); " + LOAD,
        "q",
        False,
    ),
}


@pytest.mark.parametrize(
    ("parameter", "statement", "operand", "reported"), WINDOWS.values(), ids=WINDOWS.keys()
)
def test_windows(parameter, statement, operand, reported, tmp_path, monkeypatch):
    text = f"__device__ int f({parameter}) {{\n  int x;\n  {statement.format(operand)}\n  return x;\n}}\n"
    assert codes_of(tmp_path, monkeypatch, text) == ([("ASM003", 3)] if reported else [])


CALLEE = f"__device__ int f(unsigned a) {{\n  int x;\n  {MATRIX.format('a')}\n  return x;\n}}\n"


@pytest.mark.parametrize(
    ("callers", "reported"),
    [
        ("int g(int* p) { return f(cast_smem_ptr_to_uint(p)); }", True),
        ("int g(int* p) { return f(cast_smem_ptr_to_uint(p)) + f(cast_smem_ptr_to_uint(p + 1)); }", True),
        ("int g(int* p, int o) { return f(cast_smem_ptr_to_uint(p)) + f(o); }", False),
        ("unsigned c(int* p) { return cast_smem_ptr_to_uint(p); } int g(int* p) { return f(c(p)); }", True),
        ("", False),
    ],
)
def test_a_parameter_is_what_every_caller_gives(callers, reported, tmp_path, monkeypatch):
    text = f"{CALLEE}__device__ {callers}\n" if callers else CALLEE
    assert codes_of(tmp_path, monkeypatch, text) == ([("ASM003", 3)] if reported else [])


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ('asm("add.s32 %[to], %[a], 1;" : [to] "=r"(x) : [a] "r"(y));', []),
        ('asm("add.s32 %[a], %[a], 1;" : [to] "=r"(x) : [a] "r"(y));', ["ASM001"]),
        ('asm("mov.u32 %0, %%laneid;" : "=r"(x));', []),
        ('asm("mov.u32 %0, %1;" : "=r"(x) : OPERANDS(y));', []),
        ('asm("mov.u32 %0, %2;" : "=r"(x) : "r"(y));', ["ASM001"]),
        ('asm("@%1 mov.u32 %0, 1;" : "=r"(x) : "r"(y));', []),
        ('asm("{ .reg .pred p; setp.ne.s32 p, %1, 0; @p mov.u32 %0, 1; }" : "+r"(x) : "r"(y));', []),
        ('asm("mov.u32 %0, 1;" : "r"(x));', ["ASM002"]),
        ('asm("mov.u32 %0, 1;" : "=&r"(x));', []),
        ('\n#if 0\nasm("mov.u32 %0, 1;" : "r"(x));\n#endif\n', []),
    ],
)
def test_operand_lists(statement, found, tmp_path, monkeypatch):
    text = f"__device__ int f(int y) {{\n  int x = 0;\n  {statement}\n  return x;\n}}\n"
    assert [code for code, _ in codes_of(tmp_path, monkeypatch, text)] == found


LIST = "#if {}\n#define HAVE 1\n#endif\n"
TWO = "__CUDA_ARCH__ == 900 || __CUDA_ARCH__ == {}"


@pytest.mark.parametrize(
    ("condition", "targets", "reported"),
    [
        (TWO.format(1200), ["sm_90a", "sm_100a"], True),
        (TWO.format(1200), ["sm_90a", "sm_120a"], False),
        (TWO.format(1200) + " \\\n || __CUDA_ARCH__ == 1000", ["sm_90a", "sm_100a"], False),
        (TWO.format(1000), ["sm_90a", "sm_120a"], False),
        (TWO.format(1000), ["sm_90a", "sm_103a"], True),
        (TWO.format(1000) + " || __CUDA_ARCH__ > 1000", ["sm_90a", "sm_103a"], False),
        (f"({TWO.format(1000)}) && defined(__CUDA_ARCH_FEAT_SM90_ALL)", ["sm_90a", "sm_90", "sm_100a"], False),
        (TWO.format(1200) + " || defined(UNSEEN)", ["sm_90a", "sm_100a"], False),
    ],
)  # fmt: skip
def test_arch_lists(condition, targets, reported, tmp_path, monkeypatch):
    found = codes_of(tmp_path, monkeypatch, LIST.format(condition), targets=targets)
    assert found == ([("ARCH001", 1)] if reported else [])


def test_a_list_in_a_comment_or_a_string_is_none(tmp_path, monkeypatch):
    text = f"/*\n{LIST.format(TWO.format(1200))}*/\n"
    assert codes_of(tmp_path, monkeypatch, text, targets=["sm_90a", "sm_100a"]) == []
