"""Library wrappers: the table, who is meant by a name, tags, versions of the tree, and what nvcc makes of calls."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from ptxguard.arch import Target
from ptxguard.finding import Severity
from ptxguard.forms import on_target, read_bulk_copy
from ptxguard.model import Instruction
from ptxguard.source.analyse import Options, analyse
from ptxguard.source.candidates import WRAPPER_MARKS
from ptxguard.source.wrappers import wrappers

TABLE = wrappers()
EXPERIMENTAL = "cuda::device::experimental::cp_async_bulk_global_to_shared"


def sites_of(tmp_path, monkeypatch, files, **options):
    monkeypatch.chdir(tmp_path)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = analyse(["."], Options(**options))
    assert found.errors == ()
    return [site for site in found.sites if site.kind == "wrapper"]


def kernel(call, head="", before=""):
    """A kernel that makes the call in line 6 of what follows `head`."""
    return (
        f"{head}__global__ void pull(const float4* from, float4* out, int mask) {{\n"
        "  __shared__ alignas(128) float4 box[64];\n"
        "  __shared__ cuda::barrier<cuda::thread_scope_block> full;\n"
        "  __shared__ unsigned long long bar;\n"
        f"  {before}\n"
        f"  {call};\n"
        "}\n"
    )


# The table ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrapper", TABLE.values(), ids=TABLE.keys())
def test_every_row_can_be_found_and_names_a_form_of_the_instruction(wrapper):
    assert any(mark.decode() in f"{'::'.join(wrapper.namespace)}::{wrapper.name}" for mark in WRAPPER_MARKS)
    versions = [version for version, _ in wrapper.spaces]
    assert versions == sorted(set(versions))
    for _, space in wrapper.spaces:
        opcode = wrapper.opcode.format(space=space, rank=3)
        if "tensor" in opcode and not re.search(r"\.\dd\.", opcode):
            opcode = opcode.replace("tensor.", "tensor.3d.")
        copy = read_bulk_copy(Instruction(opcode, None, (), 0, 0, 0))
        home = "sm_100a" if copy.cta_group else "sm_90a"
        assert on_target(copy, Target.parse(home)) == "native"
        expected = "rejected" if copy.cta_group else "syscall" if space == "cluster" else "native"
        assert on_target(copy, Target.parse("sm_120a")) == expected


@pytest.mark.parametrize(
    ("name", "version", "space"),
    [
        # Read from the tags of both repositories: v2.2.0, v2.3.0, v3.1.4, v3.2.0 and v3.8.0, v3.9.0.
        ("memcpy_async", (2, 2), None),
        ("memcpy_async", (2, 3), "cluster"),
        ("memcpy_async", (3, 1), "cluster"),
        ("memcpy_async", (3, 2), "cta"),
        ("cp_async_bulk_tensor_4d_global_to_shared", (3, 6), "cluster"),
        ("SM90_TMA_LOAD_2D", (3, 8), "cluster"),
        ("SM90_TMA_LOAD_2D", (3, 9), "cta"),
        ("SM90_TMA_LOAD_IM2COL_4D", (4, 7), "cluster"),
        ("SM90_BULK_COPY_G2S", (4, 7), "cluster"),
    ],
)
def test_versions_decide_the_window(name, version, space):
    assert TABLE[name].space_in(version) == space


# Who is meant -------------------------------------------------------------------------------------

CALL = "cp_async_bulk_global_to_shared(box, from, 1024, full)"
MEANT = {
    "full name": kernel(f"cuda::device::experimental::{CALL}"),
    "from the global namespace": kernel(f"::cuda::device::experimental::{CALL}"),
    "alias": kernel(f"cde::{CALL}", "namespace cde = cuda::device::experimental;\n"),
    "alias inside the function": kernel(f"cde::{CALL}", before="namespace cde = cuda::device::experimental;"),
    "alias of an alias": kernel(
        f"e::{CALL}", "namespace d = cuda::device;\nnamespace e = d::experimental;\n"
    ),
    "macro": kernel(f"CDE::{CALL}", "#define CDE ::cuda::device::experimental\n"),
    "using-directive": kernel(CALL, "using namespace cuda::device::experimental;\n"),
    "half open": kernel(f"experimental::{CALL}", "using namespace cuda::device;\n"),
    "using-declaration": kernel(CALL, f"using {EXPERIMENTAL};\n"),
}


@pytest.mark.parametrize("text", MEANT.values(), ids=MEANT.keys())
def test_a_wrapper_is_found_by_any_of_its_names(text, tmp_path, monkeypatch):
    (site,) = sites_of(tmp_path, monkeypatch, {"pull.cu": text})
    assert site.hidden.name == EXPERIMENTAL
    assert site.hidden.certain
    assert site.span.line == text[: text.index(CALL)].count("\n") + 1
    assert site.copy.opcode == "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    assert (site.address.destination, site.function) == ("local", "pull")
    assert [place.name for place in site.kernels] == ["pull"]


OTHERS = {
    "no namespace at all": kernel(CALL),
    "another namespace": kernel(f"mine::{CALL}"),
    "own function in a namespace of that name": kernel(
        f"experimental::{CALL}",
        "using namespace cuda::device;\nnamespace experimental { __device__ void "
        "cp_async_bulk_global_to_shared(void* to, const void* from, int size, int& bar) {} }\n",
    ),
    "a comment": kernel(f"/* cuda::device::experimental::{CALL} */"),
    "a string": kernel(f'puts("cuda::device::experimental::{CALL}")'),
    "dead code": kernel(f"\n#if 0\n cuda::device::experimental::{CALL};\n#endif\n"),
    "a store": kernel("cuda::device::experimental::cp_async_bulk_shared_to_global(out, box, 1024)"),
    "a member": kernel("box.memcpy_async(box, from, 16, full)"),
    "cooperative groups": kernel("cooperative_groups::memcpy_async(block, box, from, 1024)"),
    "with a pipeline": kernel(
        "cuda::memcpy_async(box, from, cuda::aligned_size_t<16>(1024), pipe)",
        before="auto pipe = cuda::make_pipeline();",
    ),
}


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS.keys())
def test_other_things_of_that_name_are_none(text, tmp_path, monkeypatch):
    assert sites_of(tmp_path, monkeypatch, {"pull.cu": text}) == []


# cuda::ptx ----------------------------------------------------------------------------------------

PTX = "namespace ptx = cuda::ptx;\n"
OLD_OR_NEW = "conditional_t<{}, ptx::space_shared_t, ptx::space_cluster_t>"
TAGS = {
    "cluster": ("ptx::space_cluster", "", "cluster", True),
    "type": ("ptx::space_cluster_t{}", "", "cluster", True),
    "own CTA": ("ptx::space_shared", "", "cta", True),
    "by version, new": (OLD_OR_NEW.format("__cccl_ptx_isa >= 860") + "{}", "", "cta", True),
    "by version, old": (OLD_OR_NEW.format("__cccl_ptx_isa >= 9990") + "{}", "", "cluster", True),
    "by what nobody knows": (OLD_OR_NEW.format("Cta") + "{}", "", "cluster", True),
    "alias": ("tag{}", f"using tag = {OLD_OR_NEW.format('__cccl_ptx_isa >= 860')};", "cta", True),
    "constant": ("where", "constexpr auto where = ptx::space_cluster;", "cluster", True),
    "parameter": ("where", "", "cluster", False),
}


@pytest.mark.parametrize(("tag", "before", "space", "certain"), TAGS.values(), ids=TAGS.keys())
def test_a_tag_names_the_window(tag, before, space, certain, tmp_path, monkeypatch):
    text = kernel(f"ptx::cp_async_bulk({tag}, ptx::space_global, box, from, 1024, &bar)", PTX, before)
    (site,) = sites_of(tmp_path, monkeypatch, {"pull.cu": text})
    assert site.copy.destination_space == f"shared::{space}"
    assert site.hidden.certain is certain
    assert (site.address.destination, site.address.mbarrier) == ("local", "local")


TENSOR = "ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, {}box, &map, {}, &bar{})"


@pytest.mark.parametrize(
    ("call", "before", "form"),
    [
        (TENSOR.format("", "{0, 1}", ""), "", ".2d.shared::cluster.global.tile."),
        (TENSOR.format("", "at", ""), "const int at[3]{0, f(1, 2), 3};", ".3d.shared::cluster.global.tile."),
        (TENSOR.format("", "at", ""), "int at[] = {0, f(1, 2)};", ".2d.shared::cluster.global.tile."),
        (TENSOR.format("", "at", ""), "", ".tensor.shared::cluster.global.tile."),
        (TENSOR.format("", "{0}", ", mask"), "", "bytes.multicast::cluster"),
    ],
)
def test_a_tensor_copy_has_the_rank_of_its_coordinates(call, before, form, tmp_path, monkeypatch):
    (site,) = sites_of(tmp_path, monkeypatch, {"pull.cu": kernel(call, PTX, before)})
    assert form in f"{site.copy.opcode}."[: -1 if form.endswith("cluster") else None]
    assert set(site.on_target.values()) == {"syscall"}


def test_a_store_or_a_copy_between_ctas_is_no_wrapper_site(tmp_path, monkeypatch):
    calls = (
        "ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, out, box, 1024); "
        "ptx::cp_async_bulk(ptx::space_cluster, ptx::space_shared, out, box, 1024, &bar)"
    )
    assert sites_of(tmp_path, monkeypatch, {"pull.cu": kernel(calls, PTX)}) == []


def test_a_destination_follows_callers_as_that_of_asm_does(tmp_path, monkeypatch):
    text = (
        f"__device__ void load(void* to, const void* from, Bar& full) {{ {EXPERIMENTAL}(to, from, 64, full); }}\n"
        "__global__ void __cluster_dims__(2) both(const void* from) {\n"
        "  __shared__ float box[64]; __shared__ Bar full;\n"
        "  load(CALLED, from, full);\n}\n"
    )
    (site,) = sites_of(tmp_path, monkeypatch, {"own.cu": text.replace("CALLED", "box")})
    assert (site.address.destination, site.cluster.verdict) == ("local", "larger")
    peer = text.replace("CALLED", "cluster.map_shared_rank(box, 1)")
    (site,) = sites_of(tmp_path, monkeypatch, {"own.cu": peer})
    assert site.address.destination == "peer"


# Versions of the tree -----------------------------------------------------------------------------

ALIGNED = kernel("cuda::memcpy_async(box, from, cuda::aligned_size_t<16>(1024), full)")
CUTLASS = "#define CUTLASS_MAJOR {}\n#define CUTLASS_MINOR {}\n"
ATOM = "auto load = make_tma_copy(cute::SM90_TMA_LOAD{}, source, layout);\n"


@pytest.mark.parametrize(
    ("files", "defines", "space", "certain"),
    [
        ({}, {}, "cluster", False),
        ({"cccl/version.h": "#define CCCL_VERSION 3000001\n"}, {}, "cluster", True),
        ({"3rdparty/cccl/version.h": "#define CCCL_VERSION 3002000\n"}, {}, "cta", True),
        (
            {
                "a/version.h": "#define CCCL_VERSION 3000001\n",
                "b/version.h": "#define CCCL_VERSION 3004000\n",
            },
            {},
            "cluster",
            False,
        ),
        ({"cccl/version.h": "#define CCCL_VERSION 3000001\n"}, {"CCCL_VERSION": "3003000"}, "cta", True),
        ({"cccl/version.h": "#define CCCL_VERSION MAKE(3, 0)\n"}, {}, "cluster", False),
    ],
)
def test_the_version_comes_from_the_tree_or_from_the_user(
    files, defines, space, certain, tmp_path, monkeypatch
):
    sites = sites_of(tmp_path, monkeypatch, {"pull.cu": ALIGNED, **files}, defines=defines)
    (site,) = sites
    assert (site.copy.destination_space, site.hidden.certain) == (f"shared::{space}", certain)
    if not certain:
        assert "depends on the version of CCCL" in site.hidden.reason


@pytest.mark.parametrize(("version", "space"), [((3, 8), "cluster"), ((3, 9), "cta"), ((4, 7), "cta")])
def test_atoms_are_judged_by_the_version_of_cutlass(version, space, tmp_path, monkeypatch):
    files = {"load.cu": ATOM, "3rdparty/cutlass/include/cutlass/version.h": CUTLASS.format(*version)}
    (site,) = sites_of(tmp_path, monkeypatch, files)
    assert (site.copy.destination_space, site.hidden.certain) == (f"shared::{space}", True)
    assert any("CUTLASS_MINOR" in link.text for link in site.evidence)


def test_the_library_itself_is_not_judged_as_its_user(tmp_path, monkeypatch):
    version = {"inc/cutlass/version.h": CUTLASS.format(3, 8)}
    (site,) = sites_of(tmp_path, monkeypatch, {"inc/cute/x.hpp": ATOM, "inc/own/y.hpp": ATOM, **version})
    assert site.span.path == "inc/own/y.hpp"


ATOM_USES = {
    "made": (ATOM, 1),
    "alias": ("using Load = cute::SM90_TMA_LOAD;\n", 1),
    "template argument": ("auto copy = Copy_Atom<SM90_BULK_COPY_AUTO, float>{};\n", 1),
    "called": ("__device__ void f(void* to) { cute::SM90_BULK_COPY_G2S::copy(a, b, to, 64); }\n", 1),
    "defined": ("struct SM90_TMA_LOAD { static void copy(); };\n", 0),
    "specialised": ("template <> struct Copy_Traits<SM90_TMA_LOAD, int> {};\n", 0),
    "compared": ("constexpr bool same = is_same_v<Load, SM90_TMA_LOAD>;\n", 0),
    "declared": ("using cute::SM90_TMA_LOAD;\n", 0),
    "another member": ("auto op = SM90_BULK_COPY_G2S::PREFETCH{};\n", 0),
    "longer name": ("auto op = SM90_TMA_LOAD_OF_MINE{};\n", 0),
}


@pytest.mark.parametrize(("text", "count"), ATOM_USES.values(), ids=ATOM_USES.keys())
def test_an_atom_counts_where_it_is_made_not_where_it_is_spoken_of(text, count, tmp_path, monkeypatch):
    assert len(sites_of(tmp_path, monkeypatch, {"load.cu": text})) == count


def test_a_called_atom_is_judged_by_its_destination(tmp_path, monkeypatch):
    text = (
        "__global__ void k(const void* map) {\n  __shared__ float box[64]; __shared__ uint64_t bar;\n"
        "  cute::SM90_TMA_LOAD_2D::copy(map, &bar, 0, box, 0, 0);\n}\n"
    )
    (site,) = sites_of(tmp_path, monkeypatch, {"load.cu": text, "v.h": CUTLASS.format(3, 8)})
    assert (site.span.line, site.address.destination, site.address.mbarrier) == (3, "local", "local")


def test_host_transforms_are_notes_until_a_version_speaks(tmp_path, monkeypatch):
    import ptxguard

    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.cu").write_text("void run() { thrust::transform(a, b, c, d); }\n")
    (note,) = ptxguard.check_paths(["."]).findings
    assert (note.code, note.severity) == ("TMA005", Severity.NOTE)
    (tmp_path / "version.h").write_text("#define CCCL_VERSION 2008000\n")
    (warning,) = ptxguard.check_paths(["."]).findings
    assert warning.severity == Severity.WARNING
    (tmp_path / "version.h").write_text("#define CCCL_VERSION 3002000\n")
    assert ptxguard.check_paths(["."]).findings == ()


# The compiler -------------------------------------------------------------------------------------

CALLS = {
    "memcpy_async": "cuda::memcpy_async(box, from, cuda::aligned_size_t<16>(1024), full)",
    "memcpy_async, 16-byte elements": "cuda::memcpy_async(box, from, 1024, full)",
    "memcpy_async_tx": "cuda::device::memcpy_async_tx(box, from, cuda::aligned_size_t<16>(1024), full)",
    "experimental": f"cuda::device::experimental::{CALL}",
    "experimental, tensor": "cuda::device::experimental::cp_async_bulk_tensor_2d_global_to_shared("
    "box, &map, 0, 0, full)",
}


@pytest.mark.ptxas
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_nvcc_emits_the_syscall_that_the_table_predicts(call, tmp_path, monkeypatch):
    head = "#include <cuda.h>\n#include <cuda/barrier>\n__device__ CUtensorMap map;\n"
    text = kernel(call, head, "out[threadIdx.x] = box[threadIdx.x];")
    (tmp_path / "pull.cu").write_text(text.replace("full;", "full; init(&full, 1);", 1))
    (tmp_path / "version.cu").write_text("#include <cuda/std/version>\nint version_is = CCCL_VERSION;\n")
    command = ["nvcc", "-E", "-arch=sm_120a", "version.cu"]
    probe = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    (tmp_path / "version.cu").unlink()
    version = re.search(r"version_is =[^;]*?^\s*(\d+)$", probe.stdout, re.MULTILINE)[1]
    command = ["nvcc", "-cubin", "-arch=sm_120a", "-std=c++17", "-diag-suppress=20054", "-o", "out.cubin"]
    done = subprocess.run(
        [*command, "pull.cu"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    emitted = set(re.findall(rb"__cuda_syscall_\w+", (tmp_path / "out.cubin").read_bytes()))
    (site,) = sites_of(tmp_path, monkeypatch, {}, defines={"CCCL_VERSION": version})
    assert bool(emitted) == site.copy.is_cluster_load
