"""The front of a cubin says the same in whatever steps it is unpacked."""

from __future__ import annotations

import pickle

import pytest

from binkit import DATA
from ptxguard.binary import Wish, inventory, prefix
from ptxguard.binary.cubin import Cubin
from ptxguard.binary.inflate import Scratch, Unpacked, pack
from ptxguard.binary.prefix import Glance, glance

CUBINS = sorted(DATA.glob("*.cubin"))


def of_front(data):
    """What `glance` says of a compressed image."""
    return glance(Unpacked(memoryview(pack(data)), "zstd", len(data), Scratch()))


@pytest.mark.parametrize("first", [100, 101, 1000, 1 << 16])
@pytest.mark.parametrize("path", CUBINS, ids=lambda path: path.stem)
def test_steps_of_any_size_say_the_same(path, first, monkeypatch):
    data = path.read_bytes()
    monkeypatch.setattr(prefix, "_FIRST_BYTES", first)
    seen, cubin = of_front(data), Cubin(memoryview(data))
    monkeypatch.setattr(prefix, "_FIRST_BYTES", 1 << 24)
    assert seen == of_front(data)
    # None is always allowed: the image is read as a whole then.
    if any(name.startswith("__cuda_syscall_") for name in cubin.drivers.values()):
        assert seen is None
    if seen is not None:
        assert seen == Glance(len(cubin.kernels), cubin.toolkit, cubin.header.relocatable)


def test_some_image_needs_its_front_only():
    assert any(of_front(path.read_bytes()) for path in CUBINS)


def test_facts_survive_the_way_between_processes():
    found = inventory([str(path) for path in CUBINS], Wish(every_kernel=True)).artifacts
    assert any(kernel.syscalls for artifact in found for image in artifact.images for kernel in image.kernels)
    assert pickle.loads(pickle.dumps(found)) == found
