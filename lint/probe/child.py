"""One variant in one process: launches it and reports every step as a JSON line.

Started by `parent.py` as `python -m ptxguard.probe.child`. A line is written as soon as its fact is known, so
that a child that is killed leaves everything up to that moment.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import sys
import time
from importlib import import_module, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptxguard.errors import ToolError
from ptxguard.probe.api import CompileError, DriverError
from ptxguard.probe.forms import WORD, find_form
from ptxguard.probe.variants import Variant, source_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ptxguard.probe.api import Api, Card

SPIN_NS = 1_500_000_000
SHORT_MEMORY_FREE_MIB = 1000
_OUT_WORDS = 4096


class Session:
    """A variant that is being measured.

    Attributes:
        variant: what is measured.
        api: the device.
        emit: takes a kind of event and its fields.
    """

    def __init__(self, variant: Variant, api: Api, emit: Callable[[str, dict[str, Any]], None]) -> None:
        self.variant = variant
        self.api = api
        self.emit = emit
        self.stream: Any = None

    def stage(self, name: str, **extra: float) -> int:
        """Report memory and limit; returns the driver's free bytes."""
        free, total = self.api.memory()
        facts = {"free_bytes": free, "total_bytes": total, "stack_limit_bytes": self.api.stack_limit()}
        self.emit("stage", {"stage": name, **facts, **self.api.meters(), **extra})
        return free

    def timed(self, work: Callable[[], None]) -> float:
        """Milliseconds that the host spent in a piece of work."""
        start = time.perf_counter()
        work()
        return round((time.perf_counter() - start) * 1000, 4)

    def finish(self, work: Callable[[], None]) -> Callable[[], None]:
        """The work followed by waiting for it."""

        def both() -> None:
            work()
            self.api.synchronize(self.stream)

        return both


def measure(session: Session) -> None:
    """Measure a variant from a fresh context to its end.

    Raises:
        DriverError: a driver call failed; what was measured before stands.
        CompileError: the target cannot assemble the variant.
    """
    variant, api = session.variant, session.api
    card = api.card()
    session.emit("card", card.record())
    if variant.kind == "card":
        api.open()
        session.stage("context")
        return
    cubin = _cubin(variant, api, card)
    session.emit("cubin", {"bytes": len(cubin), "sha256": hashlib.sha256(cubin).hexdigest()})
    api.open()
    session.stream = api.stream()
    buffers = _buffers(variant, api)
    before = session.stage("before load")
    if variant.kind == "short_memory":
        _fill(api, before)
    module = api.load(cubin)
    session.stage("after load")
    function = api.function(module, _entry(variant))
    session.emit("attributes", api.attributes(function))
    if variant.kind == "kernel":
        return  # a user's kernel is not launched: its arguments are unknown
    if variant.kind == "wait":
        _wait_beside(session, module, function, buffers)
    else:
        _launches(session, function, buffers)
    api.unload(module)
    session.stage("after unload")


def _cubin(variant: Variant, api: Api, card: Card) -> bytes:
    if variant.cubin:
        return Path(variant.cubin).read_bytes()
    kernels = resources.files("ptxguard.probe").joinpath("kernels.cu").read_text("utf-8")
    source, macros = source_of(variant, kernels)
    return api.compile(source, macros, card.sm)


def _entry(variant: Variant) -> str:
    return variant.entry or {"copy": "copy", "refer": "refer"}.get(variant.kind, "frame")


def _buffers(variant: Variant, api: Api) -> tuple[bytes, int, int]:
    """Tensor map, address of the global tensor, address of the output; taken before anything is measured."""
    out = api.allocate(_OUT_WORDS * WORD)
    api.upload(out, bytes(_OUT_WORDS * WORD))
    if variant.kind != "copy":
        return b"", 0, out
    form = find_form(variant.form)
    words = form.source_words()
    source = api.allocate(len(words) * WORD)
    api.upload(source, struct.pack(f"<{len(words)}I", *words))
    return (api.tensor_map(form, source) if form.dims else bytes(128)), source, out


def _arguments(variant: Variant, buffers: tuple[bytes, int, int]) -> tuple[bytes, ...]:
    tensor_map, source, out = buffers
    if variant.kind == "copy":
        completed = out + (_OUT_WORDS - variant.cluster_ctas) * WORD
        return tensor_map, *(struct.pack("<Q", address) for address in (source, out, completed))
    return struct.pack("<I", 0), struct.pack("<Q", out)


def _launches(session: Session, function: Any, buffers: tuple[bytes, int, int]) -> None:
    """First launch, second launch, the limit lowered, and what a launch after that takes back."""
    variant, api = session.variant, session.api
    old_limit = api.stack_limit()
    arguments = _arguments(variant, buffers)

    def direct() -> None:
        api.launch(function, arguments, session.stream, variant.cluster_ctas)

    work = direct
    if variant.graph:
        graph = api.capture(session.stream, direct)
        session.stage("after capture")
        executable = api.instantiate(graph)
        session.stage("after instantiate")

        def by_graph() -> None:
            api.launch_graph(executable, session.stream)

        work = by_graph
    launch = session.finish(work)
    session.stage("after first launch", ms=session.timed(launch))
    if variant.kind == "copy":
        _compare(session, buffers[2])
    session.stage("after second launch", ms=session.timed(launch))
    session.stage("after limit lowered", ms=session.timed(lambda: api.set_stack_limit(old_limit)))
    session.stage("after launch again", ms=session.timed(launch))
    session.stage("after limit lowered again", ms=session.timed(lambda: api.set_stack_limit(old_limit)))


def _compare(session: Session, out: int) -> None:
    """The data that arrived against the data that must arrive."""
    variant = session.variant
    ctas, form = variant.cluster_ctas, find_form(variant.form)
    words = struct.unpack(f"<{_OUT_WORDS}I", session.api.download(out, _OUT_WORDS * WORD))
    expected = tuple(form.expected_words())
    tiles = [words[form.words * rank : form.words * (rank + 1)] for rank in range(ctas)]
    data = struct.pack(f"<{form.words * ctas}I", *(word for tile in tiles for word in tile))
    session.emit(
        "data",
        {
            "arrived": [tile == expected for tile in tiles],
            "completed": [bool(flag) for flag in words[_OUT_WORDS - ctas :]],
            "sha256": hashlib.sha256(data).hexdigest(),
        },
    )


def _wait_beside(session: Session, module: Any, function: Any, buffers: tuple[bytes, int, int]) -> None:
    """How long the host is held by launches beside a kernel that runs for 1.5 s on another stream."""
    api, arguments = session.api, _arguments(session.variant, buffers)
    spin, other = api.function(module, "spin"), api.stream()
    for name in ("first", "second"):
        api.launch(spin, (struct.pack("<Q", SPIN_NS),), other)
        ms = session.timed(lambda: api.launch(function, arguments, session.stream))
        api.synchronize(session.stream)
        api.synchronize(other)
        session.stage(f"after {name} launch", ms=ms)


def _fill(api: Api, free: int) -> None:
    """Leave 1,000 MiB free, so that a large first launch does not fit."""
    size = free - (SHORT_MEMORY_FREE_MIB << 20)
    if size > 0:
        api.allocate(size)


def run(variant: Variant, api: Api, emit: Callable[[str, dict[str, Any]], None]) -> None:
    """Measure a variant and report how it ended; expected failures are results, not exceptions."""
    api.calls = lambda name, code: emit("call", {"name": name, "code": code})
    session = Session(variant, api, emit)
    try:
        measure(session)
        emit("end", {"status": "done"})
    except DriverError as error:
        emit("end", {"status": "failed", "call": error.call, "code": error.code})
    except CompileError as error:
        emit("end", {"status": "not assembled", "reason": error.message})
    except ToolError as error:
        emit("end", {"status": "unusable", "reason": error.message})
    finally:
        _close(api)


def _close(api: Api) -> None:
    try:
        api.close()
    except DriverError:
        return  # the context is already broken and ends with this process; its code was reported


def main(arguments: list[str]) -> None:
    """Run the variant that the arguments describe: JSON of the variant, module of the device, its number."""
    text, module, device = arguments
    # Events own the real standard output; whatever a library or a kernel prints goes to standard error.
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def emit(event: str, fields: dict[str, Any]) -> None:
        events.write(json.dumps({"event": event, **fields}) + "\n")
        events.flush()

    try:
        api: Api = import_module(module).open_api(int(device))
    except ToolError as error:
        emit("end", {"status": "unusable", "reason": error.message})
        return
    run(Variant(**json.loads(text)), api, emit)


if __name__ == "__main__":
    main(sys.argv[1:])
