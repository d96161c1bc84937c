"""Whose shared memory a copy in a Python string writes to, followed through the callers of its operands."""

from __future__ import annotations

import pytest

import ptxguard

COPY = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
PROGRAM = f'''
import cutlass.cute as cute
import cutlass.utils as utils
from cutlass._mlir.dialects import llvm


def load(dst, src, size, mbar):
    llvm.inline_asm(None, [dst, src, size, mbar], "{COPY} [$0], [$1], $2, [$3];", "r,l,r,r")


@cute.kernel
def kernel(src, size, pointer, rank):
    smem = utils.SmemAllocator()
    box = smem.allocate_tensor(cute.Float32, layout, 16)
    load(DESTINATION, src, size, box.iterator)


@cute.jit
def run(src, size, pointer):
    kernel(src, size, pointer, 1).launch(grid=[1, 1, 1], block=[32, 1, 1])
'''
OWNERS = {
    "allocated": ("box.iterator", "local"),
    "allocated, as an integer": ("box.iterator.toint()", "local"),
    "allocated, with a small offset": ("box.iterator.toint() + 64", "local"),
    "allocated by cute.arch": ("cute.arch.alloc_smem(cute.Float32, 32)", "local"),
    "mapped to another rank": ("cute.arch.mapa(box.iterator, rank)", "peer"),
    "rank bits changed": ("box.iterator.toint() ^ 0x1000000", "peer"),
    "rank bits masked": ("box.iterator.toint() & 0xFEFFFFFF", "peer"),
    "argument of the host": ("pointer", "unknown"),
    "a function from outside": ("elsewhere(box)", "unknown"),
}


def destination(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels.py").write_text(text)
    found = ptxguard.check_paths(["."])
    assert [str(error) for error in found.errors] == []
    (site,) = found.sites
    return site.address


@pytest.mark.parametrize(("written", "wanted"), OWNERS.values(), ids=OWNERS)
def test_owner_of_the_destination(written, wanted, tmp_path, monkeypatch):
    address = destination(tmp_path, monkeypatch, PROGRAM.replace("DESTINATION", written))
    assert address.destination == wanted, address.reason
    assert address.reason


def test_one_caller_with_a_peer_is_enough(tmp_path, monkeypatch):
    text = PROGRAM.replace("DESTINATION", "box.iterator").replace(
        "@cute.jit",
        "@cute.kernel\ndef other(src, size, rank, far):\n    load(cute.arch.mapa(far, rank), src, size, far)\n\n\n@cute.jit",
    )
    assert destination(tmp_path, monkeypatch, text).destination == "peer"


def test_a_destination_without_callers_is_unknown(tmp_path, monkeypatch):
    text = PROGRAM.partition("@cute.kernel")[0]
    assert destination(tmp_path, monkeypatch, text).destination == "unknown"
