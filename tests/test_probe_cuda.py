"""The real device's adapter where there is no card: what is missing or too old is one sentence."""

from __future__ import annotations

import sys
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import pytest

from ptxguard.errors import ToolError
from ptxguard.probe.api import DriverError
from ptxguard.probe.cuda import CudaDevice, open_api


class Code(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_NO_DEVICE = 100


def bindings(**calls: Any) -> SimpleNamespace:
    """Stands for cuda.bindings.driver: each call returns its code and its values."""
    functions = {name: (lambda *_, result=result: result) for name, result in calls.items()}
    return SimpleNamespace(CUresult=Code, **functions)


def test_missing_bindings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    with pytest.raises(ToolError, match=r"needs cuda-bindings .*pip install 'ptxguard\[probe\]'"):
        open_api(0)


def test_every_return_code_is_told() -> None:
    device = CudaDevice(bindings(cuInit=(Code.CUDA_ERROR_NO_DEVICE,)), None, 0)
    seen: list[tuple[str, str]] = []
    device.calls = lambda name, code: seen.append((name, code))
    with pytest.raises(DriverError, match="cuInit returned CUDA_ERROR_NO_DEVICE"):
        device.card()
    assert seen == [("cuInit", "CUDA_ERROR_NO_DEVICE")]


def test_a_driver_older_than_the_runtime() -> None:
    ok = Code.CUDA_SUCCESS
    driver = bindings(
        cuInit=(ok,), cuDeviceGetCount=(ok, 1), cuDeviceGet=(ok, 0), cuDriverGetVersion=(ok, 12040)
    )
    nvrtc = SimpleNamespace(nvrtcVersion=lambda: (0, 13, 0))
    with pytest.raises(ToolError, match=r"supports CUDA 12\.4, older than the installed NVRTC 13\.0"):
        CudaDevice(driver, nvrtc, 0).card()


def test_a_card_that_is_not_there() -> None:
    driver = bindings(cuInit=(Code.CUDA_SUCCESS,), cuDeviceGetCount=(Code.CUDA_SUCCESS, 1))
    with pytest.raises(ToolError, match="there is no GPU 3; 1 are visible"):
        CudaDevice(driver, None, 3).card()


def test_no_driver_library() -> None:
    def fail(_: int) -> None:
        raise RuntimeError("libcuda.so.1 was not found")

    driver = SimpleNamespace(CUresult=Code, cuInit=fail)
    with pytest.raises(ToolError, match="no usable NVIDIA driver is installed here: libcuda"):
        CudaDevice(driver, None, 0).card()
