"""What `POST /api/runs` takes: the JSON of `check`, `scan` and `probe`, checked field by field."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from ptxguard.errors import PtxguardError
from ptxguard.store.collect import probe_run
from ptxguard.store.rows import StoredArtifact
from ptxguard.store.write import NewKernel, NewRun

_NAME = Annotated[str, Meta(max_length=100_000)]
_PATH = Annotated[str, Meta(max_length=8192)]
_LINE = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
_COUNT = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
_MIB = Annotated[float, Meta(ge=0, le=1e9)]
_TARGET = Annotated[str, Meta(pattern=r"^(sm|compute)_[0-9]{2,3}[af]?$")]
_FINGERPRINT = Annotated[str, Meta(pattern=r"^[0-9A-Za-z_-]{1,64}:[0-9]{1,9}$")]
_CODE = Annotated[str, Meta(pattern=r"^[A-Z]{2,8}[0-9]{3}$")]
_SHA256 = Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?$")]
_KIND = Literal[
    "asm", "macro", "guard", "call", "kernel", "launch", "attribute", "address", "build", "binary"
]
_INFLATED_AT_ONCE = 1 << 20


class UploadError(PtxguardError):
    """An upload cannot be taken; `status` is that of the answer."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class _Evidence(Struct, forbid_unknown_fields=True):
    kind: _KIND
    path: _PATH | None
    line: _LINE | None
    text: _NAME


class _Place(Struct, forbid_unknown_fields=True):
    name: _NAME
    path: _PATH | None
    line: _LINE | None


class _Verdict(Struct):
    verdict: str | None = None
    reason: str | None = None
    destination: str | None = None
    mbarrier: str | None = None
    evidence: list[_Evidence] = []


class _Witness(Struct):
    verdict: Literal["confirmed", "refuted", "unseen"]
    kernels: _COUNT = 0


class _Performance(Struct, rename={"never_runs": "never runs"}):
    binary: _Witness | None = None
    kernels: _COUNT | None = None
    never_runs: str | None = None
    registers_at_least: _COUNT | None = None
    registers_max: _COUNT | None = None
    registers_min: _COUNT | None = None
    warps_min: _COUNT | None = None
    warps_max: _COUNT | None = None
    warps_of: _COUNT | None = None
    kernels_with_local_reads: _COUNT | None = None
    abi_call_frame: bool = False
    setmaxnreg_ignored: bool = False
    first_launch_waits: bool = False


class _Cost(Struct, forbid_unknown_fields=True):
    gpu: Annotated[str, Meta(min_length=1, max_length=100)]
    sm: _TARGET
    bytes_per_thread: _COUNT | None
    mib: _MIB | None
    expected_mib: _MIB | None
    low_mib: _MIB | None
    high_mib: _MIB | None
    basis: Literal["measured", "declared by driver", "public measurement", "unknown"]
    source: _NAME


class _Edit(Struct, forbid_unknown_fields=True):
    path: _PATH
    line: _LINE
    column: _LINE
    end_line: _LINE
    end_column: _LINE
    text: _NAME


class _Fix(Struct):
    safety: Literal["safe", "unsafe"]
    edits: list[_Edit]


class _Finding(Struct):
    code: _CODE
    rule: _NAME
    severity: Literal["error", "warning", "note"]
    confidence: Literal["high", "medium", "low"]
    path: _PATH
    line: _LINE
    column: _LINE
    end_line: _LINE
    end_column: _LINE
    message: _NAME
    fingerprint: _FINGERPRINT
    opcode: _NAME | None
    function: _NAME | None
    kernels: list[_Place]
    targets: dict[_TARGET, Literal["compiled", "excluded", "unknown"]]
    on_target: dict[_TARGET, Literal["syscall", "native", "rejected"]]
    cluster: _Verdict
    address: _Verdict
    syscall: _NAME | None
    cost: list[_Cost]
    performance: _Performance
    evidence: list[_Evidence]
    fix: _Fix | None


class _Error(Struct):
    path: _PATH | None
    line: _LINE | None
    message: _NAME


class _Tool(Struct):
    name: str
    version: Annotated[str, Meta(max_length=100)]


class CheckReport(Struct):
    """`check --output-format json`."""

    version: Literal[1]
    tool: _Tool
    findings: list[_Finding]
    errors: list[_Error]


class _Link(Struct):
    path: _PATH | None = None
    line: _LINE | None = None
    function: _NAME | None = None


class _Site(Struct):
    offset: _COUNT | None = None
    source: list[_Link] = []


class _Syscall(Struct):
    name: _NAME
    sites: list[_Site] = []


class _Kernel(Struct):
    name: _NAME
    demangled: _NAME
    target: _TARGET
    image: _COUNT
    registers: _COUNT | None
    stack_bytes: _COUNT | None
    cluster_dims: Annotated[list[_COUNT], Meta(min_length=3, max_length=3)] | None
    syscalls: list[_Syscall]
    externs: list[_NAME]
    stack_known: bool = True


class _Image(Struct):
    toolkit: str | None = None


class _Artifact(Struct):
    path: _PATH
    member: _PATH | None
    sha256: _SHA256 | None
    images: list[_Image]
    kernels: list[_Kernel]


class ScanReport(Struct):
    """`scan --output-format json`."""

    version: Literal[1]
    artifacts: list[_Artifact]
    findings: list[_Finding]
    errors: list[_Error]


class _Card(Struct):
    name: Annotated[str, Meta(min_length=1, max_length=200)]
    sm: _TARGET
    sm_count: _COUNT
    threads_per_sm: _COUNT
    memory_bytes: Annotated[int, Meta(ge=0, le=1 << 60)]
    driver: str
    toolkit: str


class _Outcome(Struct):
    limit_before: _COUNT | None = None
    limit_after: _COUNT | None = None
    load_mib: float | None = None
    predicted_mib: float | None = None
    measured_mib: float | None = None
    agrees: bool | None = None
    conclusion: str | None = None


class _Variant(Struct):
    name: _NAME
    kind: str
    status: str
    verdict: _Outcome | None = None
    error: str | None = None
    frame_bytes: _COUNT | None = None
    form: str | None = None
    spelling: str | None = None


class _Summary(Struct):
    variants: _COUNT
    agree: _COUNT
    disagree: list[str]
    not_finished: list[str]


class ProbeResult(Struct):
    """`probe --output-format json`."""

    version: Literal[1]
    tool: _Tool
    date: Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
    card: _Card
    summary: _Summary
    variants: list[_Variant]


def inflate(body: bytes, encoding: str, limit: int) -> bytes:
    """The body without its content encoding.

    Raises:
        UploadError: it is larger than the limit, broken, or encoded in another way.
    """
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise UploadError(f"Content-Encoding {encoding[:40]!r} is not taken; use gzip or none", 415)
    unpacker = zlib.decompressobj(wbits=31)
    parts, size, rest = [], 0, body
    try:
        while rest and not unpacker.eof:
            part = unpacker.decompress(rest, _INFLATED_AT_ONCE)
            size += len(part)
            if size > limit:
                raise UploadError(f"the upload unpacks to more than {limit:,} bytes", 413)
            parts.append(part)
            rest = unpacker.unconsumed_tail
    except zlib.error as error:
        raise UploadError(f"the body is no gzip stream: {error}", 400) from error
    if not unpacker.eof or unpacker.unused_data:
        raise UploadError("the gzip stream is cut off, or something stands behind it", 400)
    return b"".join(parts)


def read_upload(body: bytes, subject: str, revision: str, key: str | None) -> NewRun:
    """The run that an upload holds.

    Args:
        body: JSON, without content encoding.
        subject: what was looked at.
        revision: of the repository, or empty.
        key: names the upload, so that a second one of the same name is known; None: each is new.

    Raises:
        UploadError: the body is no such report.
    """
    try:
        record = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UploadError(f"the body is no JSON: {error}", 400) from error
    if not isinstance(record, dict):
        raise UploadError("the body is no JSON object", 422)
    fields: dict[str, Any] = {} if key is None else {"key": key}
    kind: Any = CheckReport
    if "variants" in record or "artifacts" in record:
        kind = ProbeResult if "variants" in record else ScanReport
    try:
        record = _whole_numbers(record)
        report = msgspec.convert(record, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UploadError(f"this is no report of check, scan or probe: {error}", 422) from error
    if isinstance(report, ProbeResult):
        return _probe(record, fields)
    if isinstance(report, ScanReport):
        return _scan(record, report, subject, fields)
    return NewRun(
        "source",
        subject,
        findings=record["findings"],
        errors=record["errors"],
        revision=revision,
        tool=report.tool.version,
        **fields,
    )


def _whole_numbers(value: Any) -> Any:
    """JSON knows one kind of number: 3.0 is the whole number 3 (JSON Schema, "integer")."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 1 << 53 else value
    if isinstance(value, dict):
        return {name: _whole_numbers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_whole_numbers(item) for item in value]
    return value


def _probe(record: Mapping[str, Any], fields: dict[str, Any]) -> NewRun:
    return replace(probe_run(record), **fields)


def _scan(record: Mapping[str, Any], scan: ScanReport, subject: str, fields: dict[str, Any]) -> NewRun:
    toolkits = {image.toolkit for artifact in scan.artifacts for image in artifact.images if image.toolkit}
    return NewRun(
        "binary",
        subject,
        findings=record["findings"],
        artifacts=[StoredArtifact(one.path, one.member, one.sha256 or "") for one in scan.artifacts],
        kernels=_kernels(record),
        errors=record["errors"],
        toolchain=", ".join(sorted(toolkits)),
        **fields,
    )


def _kernels(record: Mapping[str, Any]) -> Iterator[NewKernel]:
    for place, artifact in enumerate(record["artifacts"]):
        for kernel in artifact["kernels"]:
            known = kernel.get("stack_known", True)
            dims = kernel["cluster_dims"]
            yield NewKernel(
                artifact=place,
                image=kernel["image"],
                name=kernel["name"],
                demangled=kernel["demangled"],
                target=kernel["target"],
                registers=kernel["registers"],
                stack_bytes=kernel["stack_bytes"] if known else None,
                stack_unknown="" if known else "the scan could not tell",
                cluster_dims=tuple(dims) if dims else None,
                syscalls=kernel["syscalls"],
                externs=kernel["externs"],
            )
