"""A standalone reproducer of one finding: a .cu in both spellings, the commands, and the text of an issue."""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING, Any

from ptxguard.errors import ConfigError
from ptxguard.probe.forms import FORMS, Form, issue_source
from ptxguard.probe.variants import Variant, source_of

if TYPE_CHECKING:
    from pathlib import Path

_ENCODE_ARGUMENTS = """\
CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                  CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE"""

_ISSUE = """\
# {form} copy at {place} reserves device memory on sm_120 and sm_121

`{opcode}` becomes a call of `{syscall}` there. The first launch of a kernel that holds it raises the stack
limit, and the driver reserves local memory for every resident thread of the GPU, outside every allocator.

{costs}

What ptxguard says: {message}

## Reproduce
```
{commands}
cuobjdump -sass r_cluster | grep -E 'CALL|UTMALDG|UBLKCP'
```

## What can be written instead
{fix}

GPU, driver and CUDA version of the run: please add them.
"""

_FIX = """\
If the destination is shared memory of the issuing CTA, `shared::cta` (PTX ISA 8.6, CUDA 12.8) is the same
copy without the call."""

_NO_FIX = "There is no other spelling of a multicast copy; on sm_12x it is done in software."


def find_finding(path: Path, wanted: str) -> dict[str, Any]:
    """A finding of a JSON file by its fingerprint or its `path:line`.

    Raises:
        ConfigError: no such finding, or one that calls no copy function.
    """
    try:
        findings = json.loads(path.read_text("utf-8"))["findings"]
        found = [f for f in findings if wanted in (f.get("fingerprint"), f"{f.get('path')}:{f.get('line')}")]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"holds no findings of `check` or `scan`: {error}", path=str(path)) from None
    if not found:
        raise ConfigError(f"has no finding {wanted!r}; give its fingerprint or path:line", path=str(path))
    finding: dict[str, Any] = found[0]
    return finding


def form_of(finding: dict[str, Any]) -> tuple[Form, bool]:
    """The form, and whether it is multicast, that a finding's driver function stands for.

    Raises:
        ConfigError: it names no copy function.
    """
    for form in FORMS:
        for multicast in (False, True):
            if form.syscall(multicast=multicast) == finding.get("syscall"):
                return form, multicast
    raise ConfigError("the finding names no bulk copy that calls the driver; there is nothing to reproduce")


def repro_source(form: Form, *, multicast: bool) -> str:
    """CUDA C++ of the reproducer; `-DCTA` builds the repaired spelling (multicast has none)."""
    package = resources.files("ptxguard.probe")
    kernels = package.joinpath("kernels.cu").read_text("utf-8")
    variant = Variant("repro", "copy", form.name, "cluster", multicast=multicast)
    _, macros = source_of(variant, kernels)
    issue = {spelling: issue_source(form, spelling, multicast=multicast) for spelling in ("cta", "cluster")}
    head = [f"#define {name} {value}" for name, value in macros.items()]
    if multicast:
        head += ['#define SPELLING "cluster (multicast)"', issue["cluster"]]
    else:
        head += ["#ifdef CTA", '#define SPELLING "cta"', issue["cta"], "#else"]
        head += ['#define SPELLING "cluster"', issue["cluster"], "#endif"]
    host, include, rest = package.joinpath("repro.cu").read_text("utf-8").partition("\nint main() {")
    return "\n".join([*head, kernels + host, _host_data(form), (include + rest).lstrip("\n")])


def _host_data(form: Form) -> str:
    """The global tensor, the data that must arrive, and the call that encodes the tensor map."""
    words = len(form.source_words())
    expected = ", ".join(map(str, form.expected_words()))
    lines = [
        f"#define FORM_DIMS {form.dims}",
        f"static u32 host_source[{words}];  // each word holds its index plus 1",
        f"static const u32 host_expected[{form.words}] = {{{expected}}};",
    ]
    return "\n".join([*lines, _encode(form) if form.dims else "", ""])


def _encode(form: Form) -> str:
    strides, size = [], 4
    for extent in form.extent[:-1]:
        size *= extent
        strides.append(size)

    def array(kind: str, name: str, values: Any) -> str:
        return f"  const {kind} {name}[] = {{{', '.join(map(str, values))}}};"

    lines = ["static CUresult encode(CUtensorMap* map, void* source) {"]
    lines += [array("cuuint64_t", "extent", form.extent), array("cuuint64_t", "strides", strides or [64])]
    lines += [array("cuuint32_t", "steps", [1] * form.dims)]
    if form.mode == "tile":
        name, shape = "cuTensorMapEncodeTiled", "box, steps"
        lines += [array("cuuint32_t", "box", form.box)]
    else:
        name, shape = "cuTensorMapEncodeIm2col", f"lower, upper, {form.channels}, {form.pixels}, steps"
        lines += [array("int", "lower", [0] * (form.dims - 2)), array("int", "upper", [-1] * (form.dims - 2))]
    lines += [
        f'  const auto call = driver_function<decltype(&{name})>("{name}");',
        "  if (call == nullptr) return CUDA_ERROR_NOT_FOUND;",
        f"  return call(map, CU_TENSOR_MAP_DATA_TYPE_UINT32, {form.dims}, source, extent, strides, {shape},",
        f"              {_ENCODE_ARGUMENTS});",
        "}",
    ]
    return "\n".join(lines)


def issue_text(finding: dict[str, Any], form: Form, file: str, *, multicast: bool) -> str:
    """Markdown that a maintainer can act on: what, where, how to see it, and what to write instead."""
    rows = [
        f"| {cost['gpu']} | {cost['mib']} | {cost['basis']} | {cost['source']} |"
        for cost in finding.get("cost", ())
        if cost.get("mib") is not None
    ]
    build = f"nvcc -O2 -std=c++17 -arch=sm_120a {file}"
    commands = [f"{build} -o r_cluster && ./r_cluster"]
    if not multicast:
        commands.append(f"{build} -DCTA -o r_cta && ./r_cta")
    return _ISSUE.format(
        form=form.name,
        place=f"{finding['path']}:{finding['line']}",
        opcode=finding.get("opcode"),
        syscall=finding["syscall"],
        message=finding.get("message"),
        costs="\n".join(["| GPU | MiB | basis | source |", "|---|---|---|---|", *rows]) if rows else "",
        commands="\n".join(commands),
        fix=_NO_FIX if multicast else _FIX,
    )
