"""The sources of the probe's variants, compiled by NVRTC: what ptxas makes of each form is the witness."""

from __future__ import annotations

from importlib import resources

import pytest

from ptxguard.probe.api import CompileError
from ptxguard.probe.cuda import CudaDevice
from ptxguard.probe.forms import FORMS, find_form
from ptxguard.probe.variants import Variant, catalogue, source_of

VARIANTS = {variant.name: variant for variant in catalogue(short_memory=True)}


def compiled(variant: Variant, sm: str) -> bytes:
    nvrtc = pytest.importorskip(
        "cuda.bindings.nvrtc", reason="cuda-bindings (extra [probe]) is not installed"
    )
    try:
        nvrtc.nvrtcVersion()
    except RuntimeError as error:
        pytest.skip(f"NVRTC is not installed: {error}")
    device = CudaDevice(None, nvrtc, 0)
    device.calls = lambda name, code: None
    kernels = resources.files("ptxguard.probe").joinpath("kernels.cu").read_text("utf-8")
    return device.compile(*source_of(variant, kernels), sm)


@pytest.mark.parametrize("form", [form.name for form in FORMS])
def test_only_the_cluster_spelling_calls_the_driver_on_sm_120(form: str) -> None:
    unicast = find_form(form).syscall(multicast=False).encode() + b"\0"
    multicast = find_form(form).syscall(multicast=True).encode() + b"\0"
    assert unicast in compiled(VARIANTS[f"{form}.cluster.direct"], "sm_120")
    assert b"__cuda_syscall" not in compiled(VARIANTS[f"{form}.cta.direct"], "sm_120")
    assert multicast in compiled(VARIANTS[f"{form}.multicast"], "sm_120")


def test_no_spelling_calls_the_driver_on_sm_90() -> None:
    for name in ("tensor_2d_tile.cluster.direct", "tensor_5d_im2col.cluster.direct", "bulk.multicast"):
        assert b"__cuda_syscall" not in compiled(VARIANTS[name], "sm_90")


@pytest.mark.parametrize(
    "name",
    ["frame.65536", "wait.8192", "short_memory.14608", "refer.recursion", "tensor_2d_tile.cta.peer_mbarrier"],
)
def test_controls_compile(name: str) -> None:
    assert compiled(VARIANTS[name], "sm_90").startswith(b"\x7fELF")


@pytest.mark.parametrize(
    ("function", "symbol"), [("printf", b"vprintf"), ("assert", b"__assertfail"), ("malloc", b"malloc")]
)
def test_references_stay_undefined(function: str, symbol: bytes) -> None:
    assert b"\0" + symbol + b"\0" in compiled(VARIANTS[f"refer.{function}"], "sm_90")
    assert symbol not in compiled(VARIANTS["refer.nothing"], "sm_90")


def test_a_target_without_the_instruction_says_why() -> None:
    with pytest.raises(CompileError, match="sm_90"):
        compiled(VARIANTS["tensor_2d_tile.cta.direct"], "sm_80")


def test_expected_data_of_small_cases() -> None:
    # 1-D: box of 8 at 12 of 16 elements: the last four, then zeros from beyond the end.
    assert find_form("tensor_1d_tile").expected_words() == [13, 14, 15, 16, 0, 0, 0, 0]
    # 3-D im2col: base pixels 1..4 of the first row, 0..4 of the second, 0..2 of the third, moved by one.
    pixels = find_form("tensor_3d_im2col").expected_words()[::8]  # the first channel of each
    columns = [2, 3, 4, 5, 7, 8, 9, 10, 11, 13, 14, 15]
    assert pixels == [column * 8 + 1 for column in columns]
    assert find_form("bulk").expected_words() == list(range(1, 257))


def test_names_are_unique() -> None:
    assert len(VARIANTS) == len(catalogue(short_memory=True)) > 90
