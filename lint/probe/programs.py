"""Whole programs: a reproducer built and run, two builds compared by output, time and device memory."""

from __future__ import annotations

import hashlib
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptxguard.errors import ToolError
from ptxguard.memcost import MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ptxguard.probe.api import Card

_PEAK = """\
Peak: device memory in use at the highest moment of a run, the framework's allocator included. Where both runs
allocate the same, the difference is what they take outside it."""

SAMPLE_S = 0.02
TAIL_LINES = 20


@dataclass(frozen=True)
class Run:
    """One run of a program.

    Attributes:
        label: how the user named it: the command, or the macros of a build.
        exit_status: of the program; negative: ended by that signal.
        seconds: wall clock.
        sha256: of its standard output.
        output: the last lines of its standard output.
        peak_mib: device memory in use at the highest moment, less what was in use before; None where NVML is
            not to be had.
    """

    label: str
    exit_status: int
    seconds: float
    sha256: str
    output: str
    peak_mib: float | None

    def record(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)


def device_meter(card: Card) -> Callable[[], int] | None:
    """A function that gives the bytes in use on a card, by NVML; None where NVML cannot tell."""
    try:
        library = import_module("pynvml")
        library.nvmlInit()
        handle = library.nvmlDeviceGetHandleByPciBusId(card.bus_id.encode())
        library.nvmlDeviceGetMemoryInfo(handle)
    except Exception:  # pynvml raises a class of its own a code; each of them means "cannot tell"
        return None
    return lambda: int(library.nvmlDeviceGetMemoryInfo(handle).used)


class _Sampler(threading.Thread):
    """Keeps the highest reading of a meter until it is stopped."""

    def __init__(self, meter: Callable[[], int]) -> None:
        super().__init__(daemon=True)
        self._meter = meter
        self._stopped = threading.Event()
        self.start_bytes = self.peak_bytes = meter()

    def run(self) -> None:
        while not self._stopped.wait(SAMPLE_S):
            self.peak_bytes = max(self.peak_bytes, self._meter())

    def stop(self) -> float:
        self._stopped.set()
        self.join()
        return round((self.peak_bytes - self.start_bytes) / MIB, 1)


def run_program(label: str, command: Sequence[str], meter: Callable[[], int] | None, timeout_s: float) -> Run:
    """Run a program to its end and measure it.

    Raises:
        ToolError: it cannot be started or does not end in time.
    """
    sampler = _Sampler(meter) if meter is not None else None
    if sampler is not None:
        sampler.start()
    start = time.perf_counter()
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        raise ToolError(f"{label} did not end within {timeout_s:g} s; give it more with --timeout") from None
    except OSError as error:
        raise ToolError(f"{label} cannot be started: {error.strerror}") from None
    finally:
        peak = sampler.stop() if sampler is not None else None
    text = done.stdout.decode("utf-8", "replace")
    return Run(
        label=label,
        exit_status=done.returncode,
        seconds=round(time.perf_counter() - start, 3),
        sha256=hashlib.sha256(done.stdout).hexdigest(),
        output="\n".join(text.splitlines()[-TAIL_LINES:]),
        peak_mib=peak,
    )


def run_commands(commands: Sequence[str], card: Card, timeout_s: float) -> list[Run]:
    """Run command lines one after the other."""
    meter = device_meter(card)
    return [run_program(text, shlex.split(text), meter, timeout_s) for text in commands]


def run_source(source: Path, macros: Sequence[str], card: Card, timeout_s: float) -> list[Run]:
    """Build a .cu file without and with each macro, and run every build.

    Raises:
        ToolError: nvcc is missing or rejects the file.
    """
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise ToolError("--source needs nvcc on PATH; install a CUDA toolkit or nvidia-cuda-nvcc")
    meter = device_meter(card)
    runs: list[Run] = []
    with tempfile.TemporaryDirectory(prefix="ptxguard-") as folder:
        for macro in ("", *macros):
            label = f"{source.name} -D{macro}" if macro else source.name
            program = Path(folder) / f"build{len(runs)}"
            options = [f"-arch={card.sm}", "-O2", "-std=c++17", *([f"-D{macro}"] if macro else [])]
            _build([nvcc, str(source), "-o", str(program), *options], label)
            runs.append(run_program(label, [str(program)], meter, timeout_s))
    return runs


def _build(command: Sequence[str], label: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and "undefined reference" in done.stderr:  # it calls the driver API by name
        done = subprocess.run([*command, "-lcuda"], capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr + done.stdout).strip().splitlines()
        errors = [line for line in said if "error" in line or "fatal" in line]
        raise ToolError(f"nvcc rejects {label}: {(errors or said or ['no message'])[0]}")


def compare_runs(runs: Sequence[Run]) -> dict[str, Any]:
    """How the later runs differ from the first: output, exit status, time, device memory."""
    first = runs[0]
    return {
        "same_output": all(run.sha256 == first.sha256 for run in runs),
        "same_exit_status": all(run.exit_status == first.exit_status for run in runs),
        "seconds": [round(run.seconds - first.seconds, 3) for run in runs[1:]],
        "peak_mib": [
            None
            if run.peak_mib is None or first.peak_mib is None
            else round(run.peak_mib - first.peak_mib, 1)
            for run in runs[1:]
        ],
    }


def render_runs(runs: Sequence[Run]) -> str:
    """A table of the runs, their output, and what the difference means."""
    lines = [f"{'run':<40}{'exit':>5}{'seconds':>10}{'peak MiB':>10}  output sha256"]
    for run in runs:
        peak = "unknown" if run.peak_mib is None else f"{run.peak_mib:.0f}"
        lines.append(
            f"{run.label[-39:]:<40}{run.exit_status:>5}{run.seconds:>10.3f}{peak:>10}  {run.sha256[:16]}"
        )
    for run in runs:
        lines += ["", f"{run.label}:", run.output]
    return "\n".join([*lines, "", _PEAK])
