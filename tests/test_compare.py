"""`diff`: what changed between two builds, on fixtures that nvcc made and on kernels made by hand."""

from __future__ import annotations

import json
import sys

import pytest

from binkit import DATA
from ptxguard import cli
from ptxguard.binary.demangle import family
from ptxguard.binary.facts import Artifact, CubinKernel, Image, Syscall
from ptxguard.compare import compare
from ptxguard.memcost import find_gpu

COPY = "__cuda_syscall_cp_async_bulk_tensor_2d_tile_unicast"
CARDS = (find_gpu("RTX 5090"), find_gpu("GB10"))


def kernel(name, *syscalls, registers=32, stack=0):
    return CubinKernel(
        name=name, registers=registers, stack_bytes=stack, stack_unknown="" if stack is not None else "recursion",
        shared_bytes=0, constant_bytes=0, code_bytes=128, cluster_dims=None, explicit_cluster=False,
        max_cluster_rank=None, max_threads=None, block_dims=None, barriers=None,
        syscalls=tuple(Syscall(symbol, ()) for symbol in syscalls), externs=(),
    )  # fmt: skip


def build(*kernels, target="sm_120"):
    image = Image(0, None, 0, "elf", target, 1, 1, kernel_count=len(kernels), kernels=kernels)
    return [Artifact("lib.so", None, "0" * 64, (image,))]


def compared(old, new):
    errors = []
    found = compare(old, new, CARDS, errors)
    assert errors == []
    return found


def test_equal_builds_have_no_change():
    found = compared(build(kernel("k", COPY)), build(kernel("k", COPY)))
    assert (found.changes, found.is_worse) == ((), False)


def test_a_gained_call_is_worse_and_priced():
    found = compared(build(kernel("k")), build(kernel("k", COPY)))
    assert [(change.kind, change.gained, change.lost) for change in found.changes] == [
        ("changed", (COPY,), ())
    ]
    assert [(price.old_mib, price.new_mib) for price in found.prices] == [(None, 3382.7), (None, 955.1)]
    assert found.is_worse


def test_a_lost_call_is_not_worse():
    found = compared(build(kernel("k", COPY)), build(kernel("k")))
    assert [(change.gained, change.lost) for change in found.changes] == [((), (COPY,))]
    assert not found.is_worse


def test_new_and_gone_kernels_count_and_show_only_with_calls():
    found = compared(build(kernel("a"), kernel("b", COPY)), build(kernel("c"), kernel("d", COPY)))
    assert [(change.name, change.kind) for change in found.changes] == [("b", "gone"), ("d", "new")]
    assert (found.added, found.removed, found.kernels) == (2, 2, (2, 2))
    assert found.is_worse


def test_registers_and_stack_are_told_and_no_reason_to_fail():
    found = compared(build(kernel("k", registers=40, stack=0)), build(kernel("k", registers=32, stack=None)))
    record = found.changes[0].record()
    assert (record["registers"], record["stack_bytes"]) == ([40, 32], [0, None])
    assert not found.is_worse


def test_hashes_of_unnamed_namespaces_tell_no_kernels_apart():
    name = "_ZN2te45_GLOBAL__N__{}_17_quantize_cu_{}5shareEPf"
    found = compared(
        build(kernel(name.format("fc0f6850", "4cd22a80"))), build(kernel(name.format("a4a076d8", "3421ffee")))
    )
    assert (found.added, found.removed, found.changes) == (0, 0, ())


def test_the_same_kernel_for_two_targets_is_two_kernels():
    found = compared(build(kernel("k")), build(kernel("k", COPY), target="sm_121"))
    assert [(change.target, change.kind) for change in found.changes] == [("sm_121", "new")]


def test_device_runtime_is_no_reason_to_fail():
    found = compared(build(kernel("k")), build(kernel("k", "__cuda_syscall_cnpv2LaunchDeviceV2")))
    assert found.changes[0].gained == ("__cuda_syscall_cnpv2LaunchDeviceV2",)
    assert not any(price.is_worse for price in found.prices)
    assert not found.is_worse


@pytest.fixture
def diff(monkeypatch, capsys):
    monkeypatch.chdir(DATA)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["ptxguard", "diff", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return call


def test_two_fixtures(diff):
    status, out, _ = diff("facts.sm_80.cubin", "facts.sm_120a.cubin", "--output-format", "json")
    record = json.loads(out)
    assert (status, record["worse"]) == (1, True)
    gained = {family(change["name"]) for change in record["changes"] if COPY in change["gained"]}
    assert gained == {"copies_tile", "copies_both"}
    status, out, _ = diff("facts.sm_120a.cubin", "facts.sm_80.cubin")
    assert status == 0
    assert f"lost {COPY}" in out
    assert diff("copies.o", "copies.o")[0] == 0


@pytest.mark.parametrize("name", ["absent.so", "copies.cu"])
def test_what_holds_no_code_is_an_error(diff, name):
    status, _, err = diff("copies.o", name)
    assert status == 2
    assert name in err
    assert "Traceback" not in err
