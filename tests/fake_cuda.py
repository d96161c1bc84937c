"""A made-up CUDA device that follows the measured model, for tests of the probe without a card.

It is driven by the environment variable FAKE_CUDA, a JSON object: `sm`, `free_mib`, `codes` (call -> code it
returns), `die_at` and `hang_at` (calls at which the process ends or sleeps), `corrupt` (copies lose a word),
`factor` (takes that many times the memory of the model), `integrated`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import struct
import time
from typing import Any

from ptxguard.errors import ToolError
from ptxguard.probe.api import Card, CompileError, DriverError

MIB = 1 << 20
CONTEXT_MIB, LIBRARY_MIB = 524, {"printf": 64, "assert": 92, "malloc": 138}
SM_COUNT, THREADS = 132, 2048


def open_api(device: int) -> FakeDevice:
    options = json.loads(os.environ.get("FAKE_CUDA", "{}"))
    if reason := options.get("unusable"):
        raise ToolError(reason)
    return FakeDevice(options)


class FakeDevice:
    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.calls: Any = None
        self.free = options.get("free_mib", 140_000) * MIB
        self.limit = 1024
        self.library = 0
        self.blocks: dict[int, bytearray] = {}
        self.next_address = 1 << 40
        self.tensor_maps: dict[bytes, Any] = {}
        self.busy_until = 0.0
        self.captured: list[Any] | None = None

    def _called(self, name: str) -> None:
        if self.options.get("die_at") == name:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.options.get("hang_at") == name:
            time.sleep(60)
        code = self.options.get("codes", {}).get(name, "CUDA_SUCCESS")
        self.calls(name, code)
        if code != "CUDA_SUCCESS":
            raise DriverError(name, code)

    def card(self) -> Card:
        self._called("cuInit")
        integrated = self.options.get("integrated", False)
        sm = self.options.get("sm", "sm_90")
        return Card(
            "Made-up H200", sm, SM_COUNT, THREADS, 140_000 * MIB, integrated, "580.1", "13.0", "13.0", "0:0"
        )

    def compile(self, source: str, macros: dict[str, str], sm: str) -> bytes:
        self._called("nvrtcCompileProgram")
        copy = re.search(r'"(cp\.async\.bulk\.\S+) ([^;]*);"', source)
        if copy and int(sm[3:]) < 90:
            raise CompileError("error: Instruction 'cp.async.bulk' requires .target sm_90 or higher")
        frame, refers = int(macros["FRAME_BYTES"]), macros.get("CALL(n)", "").split("(")[0].split("= ")[-1]
        need = frame if frame else 0
        if (
            copy and "shared::cluster.global" in copy[1] and sm in ("sm_120", "sm_121")
        ) or "cp_async_bulk" in refers:
            need = max(need, 14608)
        text = [copy[1], copy[2]] if copy else []
        return json.dumps(
            {"frame": frame, "need": need, "refers": refers, "copy": text, "macros": macros}
        ).encode()

    def open(self) -> None:
        self._called("cuDevicePrimaryCtxRetain")
        self._take((CONTEXT_MIB << 20) + 1024 * SM_COUNT * THREADS)

    def close(self) -> None:
        self._called("cuDevicePrimaryCtxRelease")

    def _take(self, size: int) -> None:
        if size > self.free:
            raise DriverError("cuLaunchKernel", "CUDA_ERROR_OUT_OF_MEMORY")
        self.free -= size

    def memory(self) -> tuple[int, int]:
        return self.free, 140_000 * MIB

    def meters(self) -> dict[str, int | None]:
        used = 140_000 * MIB - self.free
        return {
            "nvml_device_used_bytes": used,
            "nvml_process_used_bytes": None,
            "mem_available_bytes": self.free,
        }

    def stack_limit(self) -> int:
        return self.limit

    def set_stack_limit(self, size: int) -> None:
        self._called("cuCtxSetLimit")
        self.free += self._reserved(self.limit) - self._reserved(size)
        self.limit = size

    def _reserved(self, limit: int) -> int:
        exact = (limit - 1024) * SM_COUNT * THREADS * self.options.get("factor", 1)
        return int(exact // (2 * MIB)) * 2 * MIB

    def load(self, cubin: bytes) -> Any:
        self._called("cuModuleLoadData")
        module = json.loads(cubin)
        if module["refers"]:
            self.library = max(self.library, LIBRARY_MIB.get(module["refers"], 146))
            self._take(self.library * MIB)
        return module

    def unload(self, module: Any) -> None:
        self._called("cuModuleUnload")

    def function(self, module: Any, name: str) -> Any:
        return {**module, "name": name}

    def attributes(self, function: Any) -> dict[str, int]:
        return {"local_size_bytes": function["frame"], "num_regs": 24, "shared_size_bytes": 0}

    def allocate(self, size: int) -> int:
        self._called("cuMemAlloc")
        address = self.next_address
        self.next_address += size + 4096
        if size > 64 * MIB:
            self._take(size)
        self.blocks[address] = bytearray(min(size, MIB))
        return address

    def _block(self, address: int) -> tuple[bytearray, int]:
        start = max(base for base in self.blocks if base <= address)
        return self.blocks[start], address - start

    def upload(self, address: int, data: bytes) -> None:
        block, offset = self._block(address)
        block[offset : offset + len(data)] = data

    def download(self, address: int, size: int) -> bytes:
        block, offset = self._block(address)
        return bytes(block[offset : offset + size])

    def tensor_map(self, form: Any, address: int) -> bytes:
        key = struct.pack("<Q", len(self.tensor_maps) + 1).ljust(128, b"\0")
        self.tensor_maps[key] = (form.extent, form.box, form.mode, address)
        return key

    def stream(self) -> Any:
        return object()

    def launch(self, function: Any, arguments: Any, stream: Any, ctas: int = 1) -> None:
        self._called("cuLaunchKernel")
        if self.captured is not None:
            self.captured.append((function, arguments, stream, ctas))
            return
        if function["name"] == "spin":
            (nanoseconds,) = struct.unpack("<Q", arguments[0])
            self.busy_until = time.monotonic() + min(nanoseconds / 1e9, 0.3)
            return
        need = max(self.limit, -(-function["need"] // 16) * 16)
        if need > self.limit:
            time.sleep(max(0.0, self.busy_until - time.monotonic()))
            self._take(self._reserved(need) - self._reserved(self.limit))
            self.limit = need
        if function["copy"]:
            self._copy(function, arguments, ctas)

    def synchronize(self, stream: Any) -> None:
        self._called("cuStreamSynchronize")

    def capture(self, stream: Any, work: Any) -> Any:
        self._called("cuStreamBeginCapture")
        self.captured = []
        work()
        graph, self.captured = self.captured, None
        return graph

    def instantiate(self, graph: Any) -> Any:
        self.launch(*graph[0])
        return graph

    def launch_graph(self, executable: Any, stream: Any) -> None:
        self.launch(*executable[0])

    def _copy(self, function: Any, arguments: Any, ctas: int) -> None:
        """What the tensor memory accelerator does, by explicit strides."""
        opcode, operands = function["copy"]
        source, out, completed = (struct.unpack("<Q", argument)[0] for argument in arguments[1:])
        if ".tensor." in opcode:
            extent, box, mode, base = self.tensor_maps[arguments[0]]
            groups = [[int(n) for n in group.split(",")] for group in re.findall(r"\{([^}]*)\}", operands)]
            if mode == "tile":
                words = self._tile(extent, box, groups[0], base)
            else:
                words = self._im2col(extent, groups[0], groups[1], base)
        else:
            size = int(operands.split(",")[2])
            words = list(struct.unpack(f"<{size // 4}I", self.download(source, size)))
        if self.options.get("corrupt"):
            words[3] ^= 1
        count = int(function["macros"]["TILE_WORDS"])
        ranks = range(ctas) if "multicast" in opcode else [max(int(function["macros"]["DESTINATION"]), 0)]
        for rank in range(ctas):
            tile = words if rank in ranks else [0xDEADBEEF] * count
            self.upload(out + rank * count * 4, struct.pack(f"<{count}I", *tile))
            self.upload(completed + rank * 4, struct.pack("<I", rank in ranks))

    def _load(self, base: int, extent: Any, place: list[int]) -> int:
        if any(not 0 <= at < size for at, size in zip(place, extent, strict=True)):
            return 0
        stride, offset = 4, 0
        for at, size in zip(place, extent, strict=True):
            offset += at * stride
            stride *= size
        return struct.unpack("<I", self.download(base + offset, 4))[0]

    def _tile(self, extent: Any, box: Any, start: list[int], base: int) -> list[int]:
        place, words = [0] * len(box), []
        while True:
            words.append(self._load(base, extent, [a + b for a, b in zip(start, place, strict=True)]))
            for axis, size in enumerate(box):
                place[axis] += 1
                if place[axis] < size:
                    break
                place[axis] = 0
            else:
                return words

    def _im2col(self, extent: Any, start: list[int], offsets: list[int], base: int) -> list[int]:
        # Bounding box: lower corner 0, upper corner -1; the walk goes over W, then H, D, N (PTX ISA).
        place, words = start[1:], []
        for _ in range(12):
            taps = [a + b for a, b in zip(place, [*offsets, 0], strict=True)]
            words += [self._load(base, extent, [channel, *taps]) for channel in range(8)]
            for axis in range(len(place)):
                place[axis] += 1
                if axis == len(place) - 1 or place[axis] < extent[axis + 1] - 1:
                    break
                place[axis] = 0
        return words
