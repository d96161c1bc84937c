"""Cluster sizes from Python launches: CuTe DSL, Triton, and C++ kernels in strings started by CuPy or cuda.core."""

from __future__ import annotations

import textwrap

import pytest

import ptxguard

COPY = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
CUTE = f'''
import cutlass.cute as cute
from cutlass._mlir.dialects import llvm


def load(dst, src, size, mbar):
    llvm.inline_asm(None, [dst, src, size, mbar], "{COPY} [$0], [$1], $2, [$3];", "r,l,r,r")


class Kernel:
    def __init__(self, cluster_shape_mnk):
        CHECK
        self.cluster_shape_mnk = cluster_shape_mnk

    @cute.kernel
    def kernel(self, dst, src, size, mbar):
        load(dst, src, size, mbar)

    @cute.jit
    def __call__(self, dst, src, size, mbar):
        self.kernel(dst, src, size, mbar).launch(LAUNCH)


def main(unknown):
    Kernel(MADE)(1, 2, 3, 4)
'''


def verdict(tmp_path, monkeypatch, text, name="kernels.py"):
    """(verdict, launches in sight, evidence kinds) of the one site of a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(textwrap.dedent(text))
    found = ptxguard.check_paths(["."])
    assert [str(error) for error in found.errors] == []
    (site,) = found.sites
    return site.cluster


CUTE_LAUNCHES = {
    "without cluster": ("grid=[1, 1, 1], block=[32, 1, 1]", "(1, 1, 1)", "pass", "one"),
    "cluster of one": ("grid=[1, 1, 1], block=[32, 1, 1], cluster=[1, 1, 1]", "(1, 1, 1)", "pass", "one"),
    "cluster of two": ("grid=[1, 1, 1], block=[32, 1, 1], cluster=(2, 1, 1)", "(1, 1, 1)", "pass", "larger"),
    "attribute of one": (
        "grid=[1, 1, 1], block=[32, 1, 1], cluster=self.cluster_shape_mnk",
        "(1, 1, 1)",
        "pass",
        "one",
    ),
    "attribute of two": (
        "grid=[1, 1, 1], block=[32, 1, 1], cluster=self.cluster_shape_mnk",
        "(1, 2, 1)",
        "pass",
        "larger",
    ),
    "attribute that is not known": (
        "grid=[1, 1, 1], block=[32, 1, 1], cluster=self.cluster_shape_mnk",
        "unknown",
        "pass",
        "undecided",
    ),
    "attribute that a check forces": (
        "grid=[1, 1, 1], block=[32, 1, 1], cluster=self.cluster_shape_mnk",
        "unknown",
        "if cluster_shape_mnk != (1, 1, 1):\n            raise ValueError('one CTA only')",
        "one",
    ),
    "arguments that are unpacked": ("**unknown", "(1, 1, 1)", "pass", "undecided"),
}


@pytest.mark.parametrize(("launch", "made", "check", "wanted"), CUTE_LAUNCHES.values(), ids=CUTE_LAUNCHES)
def test_cute_launches(launch, made, check, wanted, tmp_path, monkeypatch):
    text = CUTE.replace("LAUNCH", launch).replace("MADE", made).replace("CHECK", check)
    assert verdict(tmp_path, monkeypatch, text).verdict == wanted


TRITON = f'''
import triton
import triton.language as tl


DECORATOR
@triton.jit
def kernel(dst, src, mbar):
    tl.inline_asm_elementwise("{COPY} [$1], [$2], 16, [$3]; mov.b32 $0, 0;", "=r,r,l,r", [dst, src, mbar], dtype=tl.int32, is_pure=False, pack=1)


def main(dst, src, mbar, unknown):
    kernel[(1,)](dst, src, mbarKEYWORDS)
'''
TRITON_LAUNCHES = {
    "plain": ("", "", "one"),
    "num_ctas of one": ("", ", num_ctas=1", "one"),
    "num_ctas of two": ("", ", num_ctas=2", "larger"),
    "num_ctas that is not known": ("", ", num_ctas=unknown", "undecided"),
    "configuration of two": ("@triton.autotune([triton.Config({}, num_ctas=2)], key=[])", "", "larger"),
}


@pytest.mark.parametrize(("decorator", "keywords", "wanted"), TRITON_LAUNCHES.values(), ids=TRITON_LAUNCHES)
def test_triton_launches(decorator, keywords, wanted, tmp_path, monkeypatch):
    text = TRITON.replace("DECORATOR", decorator).replace("KEYWORDS", keywords)
    assert verdict(tmp_path, monkeypatch, text).verdict == wanted


def test_a_kernel_that_nobody_launches_is_undecided(tmp_path, monkeypatch):
    text = TRITON.replace("DECORATOR", "").partition("def main")[0]
    found = verdict(tmp_path, monkeypatch, text)
    assert found.verdict == "undecided"
    assert "no kernel that calls kernel (kernels.py:8) is in the tree" in found.reason


CPP = f'''
CODE = r"""
extern "C" __global__ ATTRIBUTE void copy(char* p) {{
    __shared__ char box[16];
    asm volatile("{COPY} [%0], [%1], 16, [%0];" :: "r"((unsigned)__cvta_generic_to_shared(box)), "l"(p));
}}
"""
'''
HOST = {
    "cupy kernel": ("", 'k = cupy.RawKernel(CODE, "copy")\nk((1,), (32,), (p,))', "one"),
    "cupy module": ("", 'k = cupy.RawModule(code=CODE).get_function("copy")\nk((1,), (32,), (p,))', "one"),
    "cuda.core without cluster": (
        "",
        'k = module.get_kernel("copy")\nlaunch(s, LaunchConfig(grid=1, block=32), k, p)',
        "one",
    ),
    "cuda.core with one": (
        "",
        'launch(s, LaunchConfig(grid=1, block=32, cluster=1), module.get_kernel("copy"), p)',
        "one",
    ),
    "cuda.core with two": (
        "",
        'k = module.get_kernel("copy")\nconfig = LaunchConfig(grid=4, block=32, cluster=(2, 1, 1))\nlaunch(s, config, k, p)',
        "larger",
    ),
    "cuda.core with a shape that is not known": (
        "",
        'launch(s, LaunchConfig(grid=4, block=32, cluster=shape), module.get_kernel("copy"), p)',
        "undecided",
    ),
    "cuda.core with a configuration that is not in sight": (
        "",
        'launch(s, config, module.get_kernel("copy"), p)',
        "undecided",
    ),
    "cuda.core with a configuration that is changed": (
        "",
        'config = LaunchConfig(grid=4, block=32)\nconfig.cluster = 2\nlaunch(s, config, module.get_kernel("copy"), p)',
        "undecided",
    ),
    "a kernel object that is passed on": ("", 'run(module.get_kernel("copy"))', "undecided"),
    "a name in a table": (
        "",
        'k = cupy.RawKernel(CODE, "copy")\nk((1,), (32,), (p,))\nNAMES = {"copy": 1}',
        "undecided",
    ),
    "an attribute of the kernel": (
        "__cluster_dims__(2, 1, 1)",
        'k = cupy.RawKernel(CODE, "copy")\nk((1,), (32,), (p,))',
        "larger",
    ),
    "no launch": ("", "", "undecided"),
    "a C++ launch in another string": ("", 'HOST = """void f(char* p) { copy<<<1, 32>>>(p); }"""', "one"),
}


@pytest.mark.parametrize(("attribute", "host", "wanted"), HOST.values(), ids=HOST)
def test_kernels_in_strings(attribute, host, wanted, tmp_path, monkeypatch):
    found = verdict(tmp_path, monkeypatch, CPP.replace("ATTRIBUTE", attribute) + host + "\n")
    assert found.verdict == wanted, found


def test_a_kernel_of_a_cpp_file_is_started_from_python(tmp_path, monkeypatch):
    code = CPP.partition('r"""')[2].partition('"""')[0].replace("ATTRIBUTE", "")
    (tmp_path / "copy.cu").write_text(code)
    launch = 'launch(s, LaunchConfig(grid=4, block=32, cluster=2), module.get_kernel("copy"), p)\n'
    found = verdict(tmp_path, monkeypatch, launch, name="host.py")
    assert found.verdict == "larger"
    assert any(one.path == "host.py" for one in found.evidence)
