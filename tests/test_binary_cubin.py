"""Facts of cubins compiled from data/binary/facts.cu, against what their source says."""

from __future__ import annotations

import pytest

from binkit import DATA, SYSCALL_2D, SYSCALL_PLAIN
from ptxguard.binary.callgraph import CallGraph, deepest_bytes
from ptxguard.binary.cubin import Cubin
from ptxguard.binary.kernels import read_kernels

SOURCE = (DATA / "facts.cu").read_text()


def line_of(text):
    """1-based line of the only place of a text in facts.cu."""
    assert SOURCE.count(text) == 1
    return SOURCE[: SOURCE.index(text)].count("\n") + 1


def open_cubin(path):
    return Cubin(memoryview(path.read_bytes()))


def kernels_of(name):
    return {kernel.name: kernel for kernel in read_kernels(open_cubin(DATA / name), every=True)}


# What the source says of each kernel: driver functions, and why its stack is open.
CALLS = {
    "_Z5plainPi": (set(), ""),
    "_Z6printsPi": ({"vprintf"}, ""),
    "_Z9allocatesPPi": ({"malloc", "free"}, ""),
    "_Z7assertsPi": ({"__assertfail"}, ""),
    "_Z8recursesPii": (set(), "recursion"),
    "_Z6pointsPii": (set(), "a call through a pointer"),
    "_Z7boundedPf": (set(), ""),
    "_Z6framedPii": (set(), ""),
    "_Z9clusteredPi": (set(), ""),
    "_Z6rankedPi": (set(), ""),
    "_Z11copies_tile3Mapi": ({SYSCALL_2D}, ""),
    "_Z11copies_bothILi1EEv3MapPKvi": ({SYSCALL_2D, SYSCALL_PLAIN, "vprintf"}, ""),
    "_Z11copies_bothILi2EEv3MapPKvi": ({SYSCALL_2D, SYSCALL_PLAIN, "vprintf"}, ""),
}
NEEDS_SM_90 = ("copies", "clustered", "ranked")


def called(kernel):
    return {syscall.name for syscall in kernel.syscalls} | set(kernel.externs)


@pytest.mark.parametrize("fixture", ["facts.sm_120a.cubin", "facts.rdc.sm_120a.cubin"])
def test_every_kernel_reaches_what_its_source_calls(fixture):
    kernels = kernels_of(fixture)
    assert {name: called(kernel) for name, kernel in kernels.items()} == {n: c for n, (c, _) in CALLS.items()}


def test_sm_80_has_the_same_kernels_without_clusters():
    expected = {n: c for n, (c, _) in CALLS.items() if not any(word in n for word in NEEDS_SM_90)}
    assert {name: called(kernel) for name, kernel in kernels_of("facts.sm_80.cubin").items()} == expected


@pytest.mark.parametrize("fixture", ["facts.sm_120a.cubin", "facts.sm_80.cubin"])
def test_recursion_and_pointers_leave_the_stack_unknown(fixture):
    for name, kernel in kernels_of(fixture).items():
        assert kernel.stack_unknown == CALLS[name][1]
        assert (kernel.stack_bytes is None) == bool(kernel.stack_unknown)


def test_an_image_that_is_not_linked_has_the_stack_that_the_linker_sums_up():
    kernels = kernels_of("facts.rdc.sm_120a.cubin")
    # A frame of 8 bytes in `prints` calls `say`; what nvlink 13.0 writes is compared in test_binary_oracle.
    assert (kernels["_Z6framedPii"].stack_bytes, kernels["_Z5plainPi"].stack_bytes) == (512, 0)
    assert kernels["_Z8recursesPii"].stack_unknown == "recursion"
    assert kernels["_Z6pointsPii"].stack_unknown == "a call through a pointer"


def test_the_stack_of_a_function_in_another_image_is_not_known():
    data = (DATA / "facts.rdc.sm_120a.cubin").read_bytes().replace(b"vprintf\0", b"faraway\0")
    kernels = {k.name: k for k in read_kernels(Cubin(memoryview(data)), every=True)}
    unknown = {
        name for name, kernel in kernels.items() if kernel.stack_unknown == "the image is not linked yet"
    }
    assert unknown == {name for name, (called, _) in CALLS.items() if "vprintf" in called}
    assert kernels["_Z6framedPii"].stack_bytes == 512


def test_the_deepest_path_counts_once():
    # 1 calls 2 and 3, 3 calls 2 too; 5 and 6 call each other, which only a damaged image says.
    graph = CallGraph({1: [2, 3], 3: [2, 4], 5: [6], 6: [5]})
    frames = {1: 8, 2: 100, 3: 16, 4: 32, 5: 1, 6: 2}
    assert [deepest_bytes(graph, start, frames) for start in (1, 2, 3, 4, 5)] == [124, 100, 116, 32, 3]


def test_only_flagged_kernels_on_request():
    flagged = read_kernels(open_cubin(DATA / "facts.sm_120a.cubin"), every=False)
    expected = {n for n, (c, why) in CALLS.items() if why or any("syscall" in name for name in c)}
    assert {kernel.name for kernel in flagged} == expected


def test_launch_attributes_are_those_of_the_source():
    kernels = kernels_of("facts.sm_120a.cubin")
    clustered, ranked, bounded = (kernels[n] for n in ("_Z9clusteredPi", "_Z6rankedPi", "_Z7boundedPf"))
    assert (clustered.cluster_dims, clustered.explicit_cluster) == ((2, 1, 1), True)
    assert (ranked.max_cluster_rank, ranked.max_threads, ranked.cluster_dims) == (4, (128, 1, 1), None)
    assert (bounded.max_threads, bounded.barriers) == ((256, 1, 1), 1)
    # 512 floats, and the 1 KiB that sm_90 and later reserve.
    assert bounded.shared_bytes == 512 * 4 + 1024
    assert kernels_of("facts.sm_80.cubin")["_Z7boundedPf"].shared_bytes == 512 * 4


@pytest.mark.parametrize("fixture", ["facts.sm_120a.cubin", "facts.rdc.sm_120a.cubin"])
def test_a_call_leads_to_its_line_through_the_inlined_function(fixture):
    asm = line_of('asm volatile("cp.async.bulk.tensor.2d')
    call = line_of("load_tile(t, &map, b, x, N);")
    row = line_of('asm volatile("cp.async.bulk.shared::cluster')
    kernel = kernels_of(fixture)["_Z11copies_bothILi2EEv3MapPKvi"]
    chains = {s.name: [(link.line, link.function) for link in s.sites[0].source] for s in kernel.syscalls}
    assert chains[SYSCALL_2D] == [(asm, "_Z9load_tilejPK3Mapjii"), (call, kernel.name)]
    assert chains[SYSCALL_PLAIN] == [(row, "_Z8load_rowjPKvj")]
    assert {len(s.sites) for s in kernel.syscalls} == {1}
    assert kernel.syscalls[0].sites[0].source[0].path.endswith("/facts.cu")


@pytest.mark.parametrize(
    ("fixture", "target", "relocatable"),
    [
        ("facts.sm_120a.cubin", "sm_120a", False),
        ("facts.rdc.sm_120a.cubin", "sm_120a", True),
        ("facts.sm_80.cubin", "sm_80", False),
    ],
)
def test_header_and_notes(fixture, target, relocatable):
    cubin = open_cubin(DATA / fixture)
    assert (cubin.target, cubin.toolkit, cubin.header.relocatable) == (target, "13.0", relocatable)
    assert f"-arch {target}" in cubin.command_line
