"""What the probe needs of a CUDA driver: one small interface, so that a made-up driver can stand in."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ptxguard.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ptxguard.probe.forms import Form


class DriverError(ToolError):
    """A driver call that did not return success.

    Attributes:
        call: `cuLaunchKernel`.
        code: `CUDA_ERROR_OUT_OF_MEMORY`.
    """

    def __init__(self, call: str, code: str) -> None:
        super().__init__(f"{call} returned {code}")
        self.call = call
        self.code = code


class CompileError(ToolError):
    """The compiler rejected the source for this target."""


@dataclass(frozen=True)
class Card:
    """The GPU under test, as its driver describes it.

    Attributes:
        name: `NVIDIA H200`.
        sm: `sm_90`.
        sm_count: streaming multiprocessors.
        threads_per_sm: resident threads of one.
        memory_bytes: total device memory.
        integrated: whether it shares the host's memory.
        driver: version of the kernel driver, `580.159.04`, or "unknown".
        cuda: newest CUDA that the driver supports, `13.0`.
        toolkit: version of NVRTC, `13.0`.
        bus_id: PCI address, `0000:3b:00.0`.
    """

    name: str
    sm: str
    sm_count: int
    threads_per_sm: int
    memory_bytes: int
    integrated: bool
    driver: str
    cuda: str
    toolkit: str
    bus_id: str

    def record(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)


class Api(Protocol):
    """A CUDA device. Handles are opaque; every failing call raises DriverError.

    `calls` is told the name and return code of every driver call, in order.
    """

    calls: Callable[[str, str], None]

    def card(self) -> Card:
        """Initialise the driver and describe the device; no context yet."""
        ...

    def compile(self, source: str, macros: dict[str, str], sm: str) -> bytes:
        """A cubin for one target; CompileError with the compiler's first error."""
        ...

    def open(self) -> None:
        """Retain the primary context."""
        ...

    def close(self) -> None:
        """Release it; harmless where there is none."""
        ...

    def memory(self) -> tuple[int, int]:
        """Free and total bytes, as the driver counts them."""
        ...

    def meters(self) -> dict[str, int | None]:
        """What NVML and the host say: bytes in use on the device and by this process, MemAvailable."""
        ...

    def stack_limit(self) -> int:
        """Bytes per thread."""
        ...

    def set_stack_limit(self, size: int) -> None:
        """Set it, bytes per thread."""
        ...

    def load(self, cubin: bytes) -> Any:
        """Load a module."""
        ...

    def unload(self, module: Any) -> None:
        """Unload it."""
        ...

    def function(self, module: Any, name: str) -> Any:
        """A kernel of a module."""
        ...

    def attributes(self, function: Any) -> dict[str, int]:
        """`local_size_bytes`, `num_regs`, `shared_size_bytes`."""
        ...

    def allocate(self, size: int) -> int:
        """Device memory; an address."""
        ...

    def upload(self, address: int, data: bytes) -> None:
        """Copy to the device."""
        ...

    def download(self, address: int, size: int) -> bytes:
        """Copy from the device."""
        ...

    def tensor_map(self, form: Form, address: int) -> bytes:
        """The 128-byte tensor map of a form."""
        ...

    def stream(self) -> Any:
        """A stream that does not wait for others."""
        ...

    def launch(self, function: Any, arguments: Sequence[bytes], stream: Any, ctas: int = 1) -> None:
        """Launch CTAs of 32 threads."""
        ...

    def synchronize(self, stream: Any) -> None:
        """Wait for a stream."""
        ...

    def capture(self, stream: Any, work: Callable[[], None]) -> Any:
        """Capture work on a stream into a graph."""
        ...

    def instantiate(self, graph: Any) -> Any:
        """An executable graph."""
        ...

    def launch_graph(self, executable: Any, stream: Any) -> None:
        """Launch it."""
        ...
