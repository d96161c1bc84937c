"""The inventory and findings of `scan` as the versioned JSON record of the contract."""

from __future__ import annotations

import json
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ptxguard.binary.demangle import demangle
from ptxguard.binary.inflate import unpack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ptxguard.binary.facts import Artifact, CallSite, CubinKernel, Image
    from ptxguard.errors import PtxguardError
    from ptxguard.finding import Finding

VERSION = 1


def render(
    artifacts: Iterable[Artifact], findings: Iterable[Finding], errors: Iterable[PtxguardError]
) -> Iterator[str]:
    """One JSON document in pieces, kernel by kernel, so that large ones need no memory of their own."""
    artifacts = list(artifacts)
    yield f'{{"version": {VERSION}, "artifacts": ['
    for number, artifact in enumerate(artifacts):
        yield ", " if number else ""
        yield from _artifact(artifact)
    rest = {
        "summary": [row for artifact in artifacts for row in summary(artifact)],
        "findings": [finding.record() for finding in findings],
        "errors": [_error(error) for error in errors],
    }
    yield "], " + _dumps(rest)[1:] + "\n"


_dumps = json.JSONEncoder(ensure_ascii=False).encode


def _error(error: PtxguardError) -> dict[str, Any]:
    place = "" if error.offset is None else f"at byte {error.offset:#x}: "
    return {"path": error.path, "line": error.line, "message": f"{place}{error.message}"}


def _artifact(artifact: Artifact) -> Iterator[str]:
    head = {
        "path": artifact.path,
        "member": artifact.member,
        "sha256": artifact.sha256,
        "images": [_image(image) for image in artifact.images],
    }
    yield _dumps(head)[:-1] + ', "kernels": ['
    first = True
    for image in artifact.images:
        text = unpack(image.encoded).decode() if image.encoded else kernels_json(image)
        if text:
            yield text if first else f", {text}"
            first = False
    yield "]}"


def kernels_json(image: Image) -> str:
    """The records of an image's kernels, one after another."""
    place = _dumps({"target": image.target, "image": image.index})[1:-1]
    return ", ".join([_kernel(kernel, place) for kernel in image.kernels])


@lru_cache(maxsize=1 << 13)
def _names(name: str) -> str:
    """Both names as the beginning of a record: the same kernels come for one target after another."""
    return _dumps({"name": name, "demangled": demangle(name)})[:-1]


def _image(image: Image) -> dict[str, Any]:
    return {
        "index": image.index,
        "kind": image.kind,
        "target": image.target,
        "compressed_bytes": image.compressed_bytes,
        "bytes": image.bytes,
        "toolkit": image.toolkit,
        "kernels": image.kernel_count,
    }


def _kernel(kernel: CubinKernel, place: str) -> str:
    """The record of one kernel, put together by hand: libraries have 175,000, most with empty lists."""
    dims, syscalls = kernel.cluster_dims, kernel.syscalls
    return (
        f'{_names(kernel.name)}, {place}, "registers": {_number(kernel.registers)}, '
        f'"stack_bytes": {_number(kernel.stack_bytes)}, '
        f'"stack_known": {"false" if kernel.stack_unknown else "true"}, '
        f'"cluster_dims": {_dumps(dims) if dims else "null"}, '
        f'"syscalls": {_dumps(syscall_records(kernel)) if syscalls else "[]"}, '
        f'"externs": {_dumps(kernel.externs) if kernel.externs else "[]"}}}'
    )


def _number(value: int | None) -> str:
    return "null" if value is None else str(value)


def syscall_records(kernel: CubinKernel) -> list[dict[str, Any]]:
    """The driver functions that a kernel reaches, each with its calls."""
    return [
        {"name": syscall.name, "sites": [_site(site) for site in syscall.sites]}
        for syscall in kernel.syscalls
    ]


def _site(site: CallSite) -> dict[str, Any]:
    return {
        "offset": site.offset,
        "source": [{"path": link.path, "line": link.line, "function": link.function} for link in site.source],
    }


def summary(artifact: Artifact) -> list[dict[str, Any]]:
    """One row a target, in the order of first appearance; kernels of images not read count as null."""
    rows = []
    for target in dict.fromkeys(image.target for image in artifact.images):
        images = [image for image in artifact.images if image.target == target]
        counts: Counter[str] = Counter()
        with_syscall = 0
        for image in images:
            for kernel in image.kernels:
                counts.update(syscall.name for syscall in kernel.syscalls)
                with_syscall += bool(kernel.syscalls)
        known = [image.kernel_count for image in images if image.kernel_count is not None]
        rows.append(
            {
                "path": artifact.path,
                "member": artifact.member,
                "target": target,
                "images": len(images),
                "kernels": sum(known) if known else None,
                "kernels_with_syscall": with_syscall,
                "syscalls": dict(counts),
            }
        )
    return rows
