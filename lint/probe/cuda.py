"""The real CUDA device, through cuda-bindings, NVRTC and NVML."""

from __future__ import annotations

import ctypes
import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptxguard.errors import ToolError
from ptxguard.probe.api import Card, CompileError, DriverError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ptxguard.probe.forms import Form

_INSTALL = "install the extra with: pip install 'ptxguard[probe]'"


def open_api(device: int) -> CudaDevice:
    """The CUDA device of that number.

    Raises:
        ToolError: a library of the extra `[probe]` is missing.
    """
    try:
        driver, nvrtc = import_module("cuda.bindings.driver"), import_module("cuda.bindings.nvrtc")
    except ImportError as error:
        raise ToolError(f"the probe needs cuda-bindings ({error}); {_INSTALL}") from None
    return CudaDevice(driver, nvrtc, device)


class CudaDevice:
    """See `api.Api`."""

    def __init__(self, driver: Any, nvrtc: Any, device: int) -> None:
        self._driver = driver
        self._nvrtc = nvrtc
        self._number = device
        self._device: Any = None
        self._is_open = False
        self._nvml: tuple[Any, Any] | None = None
        self.calls: Callable[[str, str], None] = lambda name, code: None

    def _call(self, name: str, *arguments: Any) -> Any:
        """Call the driver; return its values without the code."""
        try:
            code, *values = getattr(self._driver, name)(*arguments)
        except (
            RuntimeError,
            OSError,
        ) as error:  # cuda-bindings found no libcuda, or one without this function
            self.calls(name, "not available")
            raise ToolError(f"no usable NVIDIA driver is installed here: {error}") from None
        self.calls(name, code.name)
        if code != self._driver.CUresult.CUDA_SUCCESS:
            raise DriverError(name, code.name)
        return values[0] if len(values) == 1 else tuple(values)

    def _attribute(self, name: str) -> int:
        attribute = getattr(self._driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self._call("cuDeviceGetAttribute", attribute, self._device))

    def card(self) -> Card:
        """Initialise the driver and describe the device."""
        self._call("cuInit", 0)
        count = self._call("cuDeviceGetCount")
        if self._number >= count:
            raise ToolError(f"there is no GPU {self._number}; {count} are visible here")
        self._device = self._call("cuDeviceGet", self._number)
        version = self._call("cuDriverGetVersion")
        toolkit = self._nvrtc_version()
        if version // 1000 < toolkit[0]:
            raise ToolError(
                f"the driver supports CUDA {version // 1000}.{version % 1000 // 10}, older than the installed"
                f" NVRTC {toolkit[0]}.{toolkit[1]}; update the driver or take an NVRTC of its major version"
            )
        name = self._call("cuDeviceGetName", 128, self._device)
        major, minor = (
            self._attribute("COMPUTE_CAPABILITY_MAJOR"),
            self._attribute("COMPUTE_CAPABILITY_MINOR"),
        )
        return Card(
            name=name.split(b"\0")[0].decode(),
            sm=f"sm_{major * 10 + minor}",
            sm_count=self._attribute("MULTIPROCESSOR_COUNT"),
            threads_per_sm=self._attribute("MAX_THREADS_PER_MULTIPROCESSOR"),
            memory_bytes=int(self._call("cuDeviceTotalMem", self._device)),
            integrated=bool(self._attribute("INTEGRATED")),
            driver=self._driver_version(),
            cuda=f"{version // 1000}.{version % 1000 // 10}",
            toolkit=f"{toolkit[0]}.{toolkit[1]}",
            bus_id=self._bus_id().decode(),
        )

    def _bus_id(self) -> bytes:
        return bytes(self._call("cuDeviceGetPCIBusId", 32, self._device)).split(b"\0")[0]

    def _nvrtc_version(self) -> tuple[int, int]:
        try:
            _, major, minor = self._nvrtc.nvrtcVersion()
        except (RuntimeError, OSError) as error:
            raise ToolError(f"the probe needs NVRTC ({error}); {_INSTALL}") from None
        return int(major), int(minor)

    def _driver_version(self) -> str:
        nvml = self._open_nvml()
        if nvml is None:
            return "unknown"
        version = nvml[0].nvmlSystemGetDriverVersion()
        return version.decode() if isinstance(version, bytes) else str(version)

    def _open_nvml(self) -> tuple[Any, Any] | None:
        """NVML and its handle of this device; None where NVML is missing or does not know it."""
        if self._nvml is None:
            try:
                library = import_module("pynvml")
                library.nvmlInit()
                self._nvml = library, library.nvmlDeviceGetHandleByPciBusId(self._bus_id())
            except ImportError:
                self.calls("nvmlInit", "pynvml is not installed")
            except Exception as error:  # pynvml has one class a code, and none is fatal here
                self.calls("nvmlInit", str(error))
        return self._nvml

    def compile(self, source: str, macros: dict[str, str], sm: str) -> bytes:
        """A cubin by NVRTC."""
        nvrtc = self._nvrtc
        _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"probe.cu", 0, [], [])
        options = [f"-arch={sm}".encode(), *(f"-D{name}={value}".encode() for name, value in macros.items())]
        (code,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        self.calls("nvrtcCompileProgram", code.name)
        _, size = nvrtc.nvrtcGetProgramLogSize(program)
        log = bytearray(size)
        nvrtc.nvrtcGetProgramLog(program, log)
        if code.value:
            lines = log.decode(errors="replace").splitlines()
            errors = [line.strip() for line in lines if "error" in line]
            raise CompileError((errors or lines or [code.name])[0])
        _, size = nvrtc.nvrtcGetCUBINSize(program)
        cubin = bytearray(size)
        nvrtc.nvrtcGetCUBIN(program, cubin)
        return bytes(cubin)

    def open(self) -> None:
        """Retain the primary context, the one that the runtime API and frameworks use."""
        context = self._call("cuDevicePrimaryCtxRetain", self._device)
        self._is_open = True
        self._call("cuCtxSetCurrent", context)

    def close(self) -> None:
        """Release it."""
        if self._is_open:
            self._is_open = False
            self._call("cuDevicePrimaryCtxRelease", self._device)

    def memory(self) -> tuple[int, int]:
        """Free and total bytes."""
        free, total = self._call("cuMemGetInfo")
        return int(free), int(total)

    def meters(self) -> dict[str, int | None]:
        """NVML's and the host's figures; None where a figure is not to be had (GB10, containers)."""
        device_used = process_used = None
        if (nvml := self._open_nvml()) is not None:
            library, handle = nvml
            try:
                device_used = int(library.nvmlDeviceGetMemoryInfo(handle).used)
                own = [
                    p for p in library.nvmlDeviceGetComputeRunningProcesses(handle) if p.pid == os.getpid()
                ]
                process_used = int(own[0].usedGpuMemory) if own and own[0].usedGpuMemory else None
            except library.NVMLError as error:
                self.calls("nvmlDeviceGetMemoryInfo", str(error))
        return {
            "nvml_device_used_bytes": device_used,
            "nvml_process_used_bytes": process_used,
            "mem_available_bytes": _mem_available(),
        }

    def stack_limit(self) -> int:
        """Bytes per thread."""
        return int(self._call("cuCtxGetLimit", self._driver.CUlimit.CU_LIMIT_STACK_SIZE))

    def set_stack_limit(self, size: int) -> None:
        """The driver call behind cudaDeviceSetLimit(cudaLimitStackSize, size)."""
        self._call("cuCtxSetLimit", self._driver.CUlimit.CU_LIMIT_STACK_SIZE, size)

    def load(self, cubin: bytes) -> Any:
        """Load a module."""
        return self._call("cuModuleLoadData", cubin)

    def unload(self, module: Any) -> None:
        """Unload it."""
        self._call("cuModuleUnload", module)

    def function(self, module: Any, name: str) -> Any:
        """A kernel."""
        return self._call("cuModuleGetFunction", module, name.encode())

    def attributes(self, function: Any) -> dict[str, int]:
        """What the driver knows of a kernel before it is launched."""
        table = self._driver.CUfunction_attribute
        return {
            name.lower(): int(
                self._call("cuFuncGetAttribute", getattr(table, f"CU_FUNC_ATTRIBUTE_{name}"), function)
            )
            for name in ("LOCAL_SIZE_BYTES", "NUM_REGS", "SHARED_SIZE_BYTES")
        }

    def allocate(self, size: int) -> int:
        """Device memory."""
        return int(self._call("cuMemAlloc", size))

    def upload(self, address: int, data: bytes) -> None:
        """Copy to the device."""
        self._call("cuMemcpyHtoD", address, data, len(data))

    def download(self, address: int, size: int) -> bytes:
        """Copy from the device."""
        data = bytearray(size)
        self._call("cuMemcpyDtoH", data, address, size)
        return bytes(data)

    def tensor_map(self, form: Form, address: int) -> bytes:
        """Encode the tensor map of a form."""
        driver = self._driver
        strides, size = [], 4
        for extent in form.extent[:-1]:
            size *= extent
            strides.append(driver.cuuint64_t(size))
        strides = strides or [
            driver.cuuint64_t(64)
        ]  # rank 1 has no stride; bindings want an address all the same
        head = (
            driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_UINT32,
            form.dims,
            address,
            [driver.cuuint64_t(extent) for extent in form.extent],
            strides,
        )
        steps = [driver.cuuint32_t(1)] * form.dims
        tail = (
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_NONE,
            driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
        if form.mode == "tile":
            box = [driver.cuuint32_t(extent) for extent in form.box]
            encoded = self._call("cuTensorMapEncodeTiled", *head, box, steps, *tail)
        else:
            corners = [[value] * (form.dims - 2) for value in (0, -1)]
            encoded = self._call(
                "cuTensorMapEncodeIm2col", *head, *corners, form.channels, form.pixels, steps, *tail
            )
        return ctypes.string_at(int(encoded.getPtr()), 128)

    def stream(self) -> Any:
        """A stream that does not wait for the default one."""
        return self._call("cuStreamCreate", self._driver.CUstream_flags.CU_STREAM_NON_BLOCKING.value)

    def launch(self, function: Any, arguments: Sequence[bytes], stream: Any, ctas: int = 1) -> None:
        """Launch CTAs of 32 threads."""
        buffers = [ctypes.create_string_buffer(argument, len(argument)) for argument in arguments]
        table = (ctypes.c_void_p * len(buffers))(*(ctypes.addressof(buffer) for buffer in buffers))
        self._call("cuLaunchKernel", function, ctas, 1, 1, 32, 1, 1, 0, stream, ctypes.addressof(table), 0)

    def synchronize(self, stream: Any) -> None:
        """Wait for a stream."""
        self._call("cuStreamSynchronize", stream)

    def capture(self, stream: Any, work: Callable[[], None]) -> Any:
        """Capture work into a graph."""
        mode = self._driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self._call("cuStreamBeginCapture", stream, mode)
        work()
        return self._call("cuStreamEndCapture", stream)

    def instantiate(self, graph: Any) -> Any:
        """An executable graph."""
        return self._call("cuGraphInstantiate", graph, 0)

    def launch_graph(self, executable: Any, stream: Any) -> None:
        """Launch it."""
        self._call("cuGraphLaunch", executable, stream)


def _mem_available() -> int | None:
    """MemAvailable of the host in bytes: what an integrated card really takes from."""
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None
