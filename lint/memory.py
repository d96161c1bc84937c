"""Who took it: watches stack limit and free device memory around a piece of a Python program.

    with ptxguard.memory.watch() as seen:
        step()
    print(seen.hidden_mib, seen.operation)

It asks the driver library directly, so it works in any process that has CUDA, and needs no extra.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from ptxguard.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1 << 20
_LIMIT_STACK_SIZE = 0  # CU_LIMIT_STACK_SIZE


class Device(Protocol):
    """What `watch` asks a device for."""

    def stack_limit(self) -> int:
        """Bytes per thread."""
        ...

    def free_bytes(self) -> int:
        """Free device memory."""
        ...


@dataclass
class Seen:
    """What happened inside `watch`; complete when its block has ended.

    Attributes:
        limit_before: stack limit at the start, bytes per thread.
        limit_after: at the end.
        taken_mib: device memory that went in between, by whomever on this card.
        framework_mib: of that, what torch's allocator reserved; 0 without torch.
        operation: with torch, the operation after which the limit was higher than before; None where no
            operation raised it, or torch is not loaded.
    """

    limit_before: int
    limit_after: int
    taken_mib: float = 0.0
    framework_mib: float = 0.0
    operation: str | None = None

    @property
    def hidden_mib(self) -> float:
        """Device memory that no allocator of the framework knows."""
        return self.taken_mib - self.framework_mib

    def explain(self) -> str:
        """One sentence."""
        text = f"{self.hidden_mib:.0f} MiB of device memory went outside the framework's allocator"
        if self.limit_after > self.limit_before:
            text += f"; the stack limit rose from {self.limit_before} to {self.limit_after} B"
            text += f" at {self.operation}" if self.operation else ""
            text += "; cudaDeviceSetLimit(cudaLimitStackSize, 1024) gives it back until the next such launch"
        return text


class DriverLibrary:
    """The primary context of one device, by libcuda itself. Creates the context where there is none yet.

    Raises:
        ToolError: no driver, no device, or no memory for a context.
    """

    def __init__(self, device: int = 0) -> None:
        try:
            self._library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        except OSError as error:
            raise ToolError(f"no NVIDIA driver is installed here: {error}") from None
        number, self._context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuInit", 0)
        self._call("cuDeviceGet", ctypes.byref(number), device)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), number)

    def _call(self, name: str, *arguments: Any) -> None:
        if code := getattr(self._library, name)(*arguments):
            raise ToolError(f"the GPU cannot be watched: {name} returned error {code}")

    def _in_context(self, name: str, *arguments: Any) -> None:
        self._call("cuCtxPushCurrent_v2", self._context)
        try:
            self._call(name, *arguments)
        finally:
            self._call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def stack_limit(self) -> int:
        """Bytes per thread."""
        limit = ctypes.c_size_t()
        self._in_context("cuCtxGetLimit", ctypes.byref(limit), _LIMIT_STACK_SIZE)
        return limit.value

    def free_bytes(self) -> int:
        """Free device memory."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._in_context("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value


@contextmanager
def watch(device: int | Device = 0) -> Iterator[Seen]:
    """Watch a block; the figures are net of torch's allocator where torch is loaded.

    Args:
        device: CUDA's number of the card, or an object that answers for one.

    Raises:
        ToolError: there is no usable driver or card.
    """
    card = DriverLibrary(device) if isinstance(device, int) else device
    torch = sys.modules.get("torch")
    free, reserved = card.free_bytes(), _reserved(torch)
    limit = card.stack_limit()
    seen = Seen(limit, limit)
    try:
        with _operations(torch, card, seen):
            yield seen
    finally:
        if torch is not None and torch.cuda.is_initialized():
            torch.cuda.synchronize()
        seen.limit_after = card.stack_limit()
        seen.taken_mib = (free - card.free_bytes()) / MIB
        seen.framework_mib = (_reserved(torch) - reserved) / MIB


def _reserved(torch: Any) -> int:
    return int(torch.cuda.memory_reserved()) if torch is not None and torch.cuda.is_initialized() else 0


@contextmanager
def _operations(torch: Any, card: Device, seen: Seen) -> Iterator[None]:
    """With torch: name the operation after which the limit rose. The driver raises it at the launch."""
    if torch is None:
        yield
        return
    mode: Any = import_module("torch.utils._python_dispatch").TorchDispatchMode

    class Namer(mode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, function: Any, types: Any, arguments: Any = (), named: Any = None
        ) -> Any:
            result = function(*arguments, **(named or {}))
            if seen.operation is None and card.stack_limit() > seen.limit_before:
                seen.operation = str(function)
            return result

    with Namer():
        yield


@contextmanager
def assert_no_hidden_memory(max_mib: float = 64, device: int | Device = 0) -> Iterator[Seen]:
    """Fail where a block takes more device memory outside the framework's allocator than that.

    Raises:
        AssertionError: it does; the message names amount, limit and operation.
    """
    with watch(device) as seen:
        yield seen
    if seen.hidden_mib > max_mib:
        raise AssertionError(f"{seen.explain()} ({max_mib:g} MiB are allowed)")
