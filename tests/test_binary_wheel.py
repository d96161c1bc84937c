"""A published wheel, kernel by kernel: transformer_engine_cu13 2.20.2, named by PTXGUARD_TEST_WHEEL."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from ptxguard.binary import Wish, inventory

pytestmark = pytest.mark.wheel

PREFIX = "__cuda_syscall_cp_async_bulk_tensor_"
TILE_2D, TILE_4D = PREFIX + "2d_tile_unicast", PREFIX + "4d_tile_unicast"
MULTICAST = PREFIX + "2d_tile_multicast"
# Of libtransformer_engine.so, from cuobjdump: target -> cubins, kernels, bytes, kernels with vprintf.
TABLE = {
    "sm_75": (89, 22185, 616467352, 4120),
    "sm_80": (89, 22185, 604100632, 4120),
    "sm_89": (89, 22185, 336571544, 4120),
    "sm_90": (89, 22185, 439187624, 5355),
    "sm_90a": (1, 6, 535568, 0),
    "sm_100": (42, 1335, 88247280, 77),
    "sm_100a": (47, 20850, 1042070936, 1416),
    "sm_103a": (47, 20850, 1042024856, 1416),
    "sm_107a": (47, 20850, 1046206656, 1416),
    "sm_120": (42, 1335, 88823144, 77),
    "sm_120f": (47, 20850, 1120972440, 1484),
}


@pytest.fixture(scope="module")
def found():
    path = os.environ.get("PTXGUARD_TEST_WHEEL", "")
    if "transformer_engine_cu13-2.20.2" not in Path(path).name:
        pytest.skip("PTXGUARD_TEST_WHEEL names no wheel of transformer_engine_cu13 2.20.2")
    return inventory(path, Wish(every_kernel=True))


@pytest.fixture(scope="module")
def library(found):
    return next(a for a in found.artifacts if a.member.endswith("/libtransformer_engine.so"))


def test_nothing_is_left_unread(found):
    assert found.errors == ()
    kernels = sum(image.kernel_count for artifact in found.artifacts for image in artifact.images)
    assert kernels == 174_906


def test_every_target_has_its_cubins_kernels_and_bytes(library):
    table = {}
    for target in {image.target for image in library.images}:
        images = [image for image in library.images if image.target == target]
        printing = sum("vprintf" in kernel.externs for image in images for kernel in image.kernels)
        counts = sum(image.kernel_count for image in images), sum(image.bytes for image in images)
        table[target] = (len(images), *counts, printing)
    assert table == TABLE
    assert sum(image.kernel_count for image in library.images) == 174_816


def test_syscalls_kernels_and_names(library):
    kernels, names, images = Counter(), {}, {}
    for image in library.images:
        for kernel in image.kernels:
            for syscall in kernel.syscalls:
                assert image.target == "sm_120f"
                kernels[syscall.name] += 1
                names.setdefault(syscall.name, set()).add(kernel.name)
                images.setdefault(syscall.name, set()).add(image.index)
    assert kernels == {TILE_2D: 7970, TILE_4D: 20, MULTICAST: 6}
    assert {name: len(group) for name, group in names.items()} == {TILE_2D: 7226, TILE_4D: 20, MULTICAST: 6}
    assert {name: len(group) for name, group in images.items()} == {TILE_2D: 31, TILE_4D: 1, MULTICAST: 1}
    assert len(set().union(*images.values())) == 33


def test_multicast_kernels_never_run_there(library):
    reasons = {
        kernel.never_runs
        for image in library.images
        for kernel in image.kernels
        if any(syscall.name == MULTICAST for syscall in kernel.syscalls)
    }
    assert len(reasons) == 1
    assert "sm_90" in reasons.pop()


def test_no_kernel_needs_malloc_free_or_assert(library):
    externs = {name for image in library.images for kernel in image.kernels for name in kernel.externs}
    assert externs == {"vprintf"}
