"""Stack bytes times resident threads: what a stack limit costs on each GPU, as pure arithmetic.

The driver reserves local memory for every thread that can be resident on the whole GPU. Raising the stack
limit from `d` to `s` bytes takes (s - d) x SM count x threads per SM, rounded down to 2 MiB: exact on an H200
for 12 frame sizes (driver 580.159.04). It is the maximum over all kernels of a context, never a sum.
"""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING

from ptxguard.arch import Target
from ptxguard.errors import ConfigError
from ptxguard.finding import Cost

if TYPE_CHECKING:
    from collections.abc import Sequence

MIB = 1 << 20
GRANULARITY_MIB = 2
DEFAULT_STACK_BYTES = 1024

# Cards priced in a finding where the user names none: the targets that call the driver.
DEFAULT_GPUS = ("RTX 5090", "RTX 5090 Laptop", "RTX PRO 6000", "GB10")

COPY_SYSCALL_PREFIX = "__cuda_syscall_cp_async_bulk_"

# Smallest and largest stack need known for a copy syscall: 14,448 B reported for a plain copy, 15,976 B
# declared by driver 580.159.04 for the 5-D im2col multicast form.
LOW_BYTES, HIGH_BYTES = 14_448, 15_976

MEASURED, DECLARED, PUBLIC, UNKNOWN = "measured", "declared by driver", "public measurement", "unknown"


@dataclass(frozen=True)
class Gpu:
    """One product.

    Attributes:
        name: as records spell it, `RTX 5090`.
        sm: its target, `sm_120`.
        sm_count: streaming multiprocessors.
        threads_per_sm: threads that can be resident on one of them.
        memory_gib: device memory as sold; the host's memory on integrated GPUs.
        integrated: whether it shares the host's memory.
        source: where the figures come from.
        aliases: other names that drivers give it.
    """

    name: str
    sm: str
    sm_count: int
    threads_per_sm: int
    memory_gib: float
    integrated: bool
    source: str
    aliases: tuple[str, ...] = ()

    @property
    def resident_threads(self) -> int:
        """Threads that the driver reserves local memory for."""
        return self.sm_count * self.threads_per_sm


@dataclass(frozen=True)
class StackNeed:
    """How many bytes of stack per thread something needs, and how that is known.

    Attributes:
        bytes_per_thread: the stack limit the driver will set, or None where it is unknown.
        low_bytes: smallest figure known.
        high_bytes: largest figure known.
        basis: measured, declared by driver, public measurement or unknown.
        source: where the figure comes from, or why it is unknown.
    """

    bytes_per_thread: int | None
    low_bytes: int | None
    high_bytes: int | None
    basis: str
    source: str


@lru_cache(maxsize=1)
def gpus() -> tuple[Gpu, ...]:
    """All products of `gpus.toml`, in its order."""
    table = tomllib.loads(resources.files("ptxguard").joinpath("gpus.toml").read_text("utf-8"))
    architectures, sources = table["architecture"], table["source"]
    return tuple(
        Gpu(
            name=row["name"],
            sm=row["sm"],
            sm_count=row["sm_count"],
            threads_per_sm=architectures[row["sm"]]["threads_per_sm"],
            memory_gib=float(row["memory_gib"]),
            integrated=row.get("integrated", False),
            source=sources[row["source"]],
            aliases=tuple(row.get("aliases", ())),
        )
        for row in table["gpu"]
    )


def _plain(name: str) -> str:
    words = name.lower().replace("(tm)", "").split()
    return " ".join(word for word in words if word not in {"nvidia", "geforce", "gpu"})


def find_gpu(name: str) -> Gpu:
    """The product of that name; case and the vendor's prefixes do not matter.

    Raises:
        ConfigError: no such product, with the nearest names.
    """
    known = {_plain(text): gpu for gpu in gpus() for text in (gpu.name, *gpu.aliases)}
    wanted = _plain(name)
    if wanted in known:
        return known[wanted]
    near = difflib.get_close_matches(wanted, known, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(known[key].name for key in near)}?" if near else ""
    raise ConfigError(f"no GPU is called {name!r}{hint} `ptxguard cost --list-gpus` names them all")


def reservation_mib(gpu: Gpu, bytes_per_thread: int, default_bytes: int = DEFAULT_STACK_BYTES) -> float:
    """MiB that the driver takes when the stack limit rises from `default_bytes`; 0 where it does not rise."""
    return max(bytes_per_thread - default_bytes, 0) * gpu.resident_threads / MIB


def expected_mib(mib: float) -> int:
    """What a measurement shows: rounded down to the driver's 2 MiB granularity."""
    return int(mib // GRANULARITY_MIB) * GRANULARITY_MIB


def public_need(symbol: str) -> StackNeed:
    """What public measurements say about a driver function.

    Args:
        symbol: the full name, `__cuda_syscall_cp_async_bulk_tensor_2d_tile_unicast`.
    """
    if not symbol.startswith(COPY_SYSCALL_PREFIX):
        reason = f"nobody has published the stack need of {symbol}; `ptxguard probe` measures it"
        return StackNeed(None, None, None, UNKNOWN, reason)
    if symbol.startswith(COPY_SYSCALL_PREFIX + "tensor_"):
        source = "TransformerEngine issue 3765, RTX 5090, driver 595.71.05"
        if not symbol.endswith(("_2d_tile_unicast", "_4d_tile_unicast")):
            source += " (2-D tile unicast form, taken for this form too)"
        return StackNeed(14_608, LOW_BYTES, HIGH_BYTES, PUBLIC, source)
    source = "1-D copy of an attention library, RTX 5090, driver not named"
    if symbol.endswith("_multicast"):
        source += " (unicast form, taken for this form too)"
    return StackNeed(14_448, LOW_BYTES, HIGH_BYTES, PUBLIC, source)


def price(gpu: Gpu, need: StackNeed) -> Cost:
    """The cost record of one need on one GPU."""

    def mib(size: int | None) -> float | None:
        return None if size is None else round(reservation_mib(gpu, size), 1)

    exact = None if need.bytes_per_thread is None else reservation_mib(gpu, need.bytes_per_thread)
    return Cost(
        gpu=gpu.name,
        sm=gpu.sm,
        bytes_per_thread=need.bytes_per_thread,
        mib=mib(need.bytes_per_thread),
        expected_mib=None if exact is None else expected_mib(exact),
        low_mib=mib(need.low_bytes),
        high_mib=mib(need.high_bytes),
        basis=need.basis,
        source=need.source,
    )


def price_syscall(symbol: str, gpus: Sequence[Gpu]) -> tuple[Cost, ...]:
    """Price a driver function by public measurements, on those of the GPUs whose target calls it.

    Copies are native on every other target: nothing is reserved, so there is no row.
    """
    return _priced(symbol, tuple(gpus))


@lru_cache(maxsize=256)  # a file repeats few forms many times
def _priced(symbol: str, gpus: tuple[Gpu, ...]) -> tuple[Cost, ...]:
    need = public_need(symbol)
    copies = symbol.startswith(COPY_SYSCALL_PREFIX)
    return tuple(price(gpu, need) for gpu in gpus if not copies or Target.parse(gpu.sm).calls_driver)
