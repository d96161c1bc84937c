"""What the probe can launch: every form in both spellings, controls, and references to driver functions."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ptxguard.probe.forms import FORMS, find_form, issue_source

if TYPE_CHECKING:
    from collections.abc import Sequence

# The frame sizes of the controls: both sides of the 1,024 B default, 16 B steps, powers of two, and the
# 14,608 B that driver 595.71.05 sets for a tensor copy.
CONTROL_FRAMES = (512, 1024, 1040, 1536, 2048, 4096, 8192, 14608, 16384, 32768, 65536)

# Functions that the driver's device library provides; a kernel refers to one of them and never calls it.
LIBRARY_FUNCTIONS = ("printf", "assert", "malloc", "__cuda_syscall_cnpv2LaunchDeviceV2")

_CALLS = {"printf": 'printf("%u", n)', "assert": "assert(n == 0)", "malloc": "out[0] = malloc(n) != nullptr"}


@dataclass(frozen=True)
class Variant:
    """One measurement, made in a process of its own.

    Attributes:
        name: unique, dotted.
        kind: frame (a control), copy, refer (a driver function is referred to, never called), wait (a first
            launch beside a running kernel), short_memory (one that does not fit) or kernel (a user's cubin).
        form: name of the copy form.
        spelling: `cta` or `cluster`.
        multicast: to both CTAs of a cluster of two.
        graph: launched from a CUDA graph.
        peer: what CTA 0 of a cluster of two names in CTA 1: `destination`, `mbarrier`, or nothing.
        frame_bytes: local array of the kernel itself.
        refers_to: the driver function, or `recursion`.
        cubin: path of a user's cubin.
        entry: kernel in it.
    """

    name: str
    kind: str
    form: str = ""
    spelling: str = ""
    multicast: bool = False
    graph: bool = False
    peer: str = ""
    frame_bytes: int = 0
    refers_to: str = ""
    cubin: str = ""
    entry: str = ""

    def record(self) -> dict[str, Any]:
        """The JSON form: fields that are set."""
        return {key: value for key, value in asdict(self).items() if value}

    @property
    def cluster_ctas(self) -> int:
        """CTAs of the cluster, which are also those of the grid."""
        return 2 if self.multicast or self.peer else 1


def frame_variant(frame_bytes: int) -> Variant:
    """A control: a kernel with a local array of that size."""
    return Variant(f"frame.{frame_bytes}", "frame", frame_bytes=frame_bytes)


def copy_variants() -> tuple[Variant, ...]:
    """Every form: unicast in both spellings, direct and by graph; multicast; peers; with an own frame."""
    found = []
    for form in FORMS:
        for spelling in ("cluster", "cta"):
            name = f"{form.name}.{spelling}"
            found.append(Variant(f"{name}.direct", "copy", form.name, spelling))
            found.append(Variant(f"{name}.graph", "copy", form.name, spelling, graph=True))
        found.append(Variant(f"{form.name}.multicast", "copy", form.name, "cluster", multicast=True))
    for spelling in ("cta", "cluster"):
        for peer in ("destination", "mbarrier"):
            name = f"tensor_2d_tile.{spelling}.peer_{peer}"
            found.append(Variant(name, "copy", "tensor_2d_tile", spelling, peer=peer))
        for frame in (1024, 4096):
            name = f"tensor_2d_tile.{spelling}.frame_{frame}"
            found.append(Variant(name, "copy", "tensor_2d_tile", spelling, frame_bytes=frame))
    return tuple(found)


def refer_variants() -> tuple[Variant, ...]:
    """References to each function of the driver's device library, and a recursive function."""
    copies = [form.syscall(multicast=multicast) for form in FORMS for multicast in (False, True)]
    found = [Variant("refer.nothing", "refer")]
    found += [Variant(f"refer.{name}", "refer", refers_to=name) for name in (*LIBRARY_FUNCTIONS, *copies)]
    found += [Variant("refer.printf.frame_4096", "refer", refers_to="printf", frame_bytes=4096)]
    return (*found, Variant("refer.recursion", "refer", refers_to="recursion"))


def catalogue(frames: Sequence[int] = CONTROL_FRAMES, *, short_memory: bool = False) -> tuple[Variant, ...]:
    """All variants of a full run, cheapest knowledge first."""
    rare = (Variant("short_memory.14608", "short_memory", frame_bytes=14608),) if short_memory else ()
    return (
        *map(frame_variant, (0, *frames)),
        Variant("wait.8192", "wait", frame_bytes=8192),
        *copy_variants(),
        *refer_variants(),
        *rare,
    )


def source_of(variant: Variant, kernels: str) -> tuple[str, dict[str, str]]:
    """CUDA C++ and macros of a variant.

    Args:
        variant: what to build.
        kernels: the text of `kernels.cu`.
    """
    macros = {"FRAME_BYTES": str(variant.frame_bytes)}
    if variant.kind == "copy":
        form = find_form(variant.form)
        destination, mbarrier = {"destination": ("1", "-1"), "mbarrier": ("0", "1")}.get(
            variant.peer, ("-1", "-1")
        )
        macros |= {
            "KERNEL_COPY": "1",
            "TILE_WORDS": str(form.words),
            "CLUSTER_CTAS": str(variant.cluster_ctas),
            "RECEIVERS": "3" if variant.cluster_ctas == 2 else "1",
            "DESTINATION": destination,
            "MBARRIER": mbarrier,
        }
        return issue_source(form, variant.spelling, multicast=variant.multicast) + kernels, macros
    if variant.kind == "refer":
        return _refer_source(variant.refers_to, kernels, macros)
    macros |= {"KERNEL_FRAME": "1"}
    if variant.kind == "wait":
        macros |= {"KERNEL_SPIN": "1"}
    return kernels, macros


def _refer_source(function: str, kernels: str, macros: dict[str, str]) -> tuple[str, dict[str, str]]:
    if function == "recursion":
        return kernels, macros | {"KERNEL_RECURSION": "1"}
    macros = macros | {
        "KERNEL_REFER": "1",
        "CALL(n)": _CALLS.get(function, f"{function}(n)" if function else "(void)n"),
    }
    if function.startswith("__cuda_syscall_"):
        # ptxas leaves every function of this prefix to the driver, which links it when the module is loaded.
        return f'extern "C" __device__ void {function}(unsigned);\n{kernels}', macros
    return ("#include <assert.h>\n" if function == "assert" else "") + kernels, macros
