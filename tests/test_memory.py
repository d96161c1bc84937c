"""`ptxguard.memory` on a made-up card, and on the card of this machine where there is one."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ptxguard.errors import ToolError
from ptxguard.memory import DriverLibrary, assert_no_hidden_memory, watch

MIB = 1 << 20


class Card:
    """A card whose stack reservation follows the measured model of an H200: 132 SM x 2048 threads."""

    def __init__(self) -> None:
        self.limit = 1024
        self.free = 140_000 * MIB

    def stack_limit(self) -> int:
        return self.limit

    def free_bytes(self) -> int:
        return self.free

    def launch(self, frame: int) -> None:
        if frame > self.limit:
            self.free -= (frame - self.limit) * 132 * 2048
            self.limit = frame


@pytest.fixture(autouse=True)
def _no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)


def test_watch_sees_the_limit_and_the_memory() -> None:
    card = Card()
    with watch(card) as seen:
        card.launch(4096)
    assert (seen.limit_before, seen.limit_after, seen.hidden_mib) == (1024, 4096, 792)
    assert "792 MiB" in seen.explain()
    assert "from 1024 to 4096 B" in seen.explain()


def test_figures_stand_even_after_an_exception() -> None:
    card = Card()
    watched = watch(card)
    seen = watched.__enter__()
    card.launch(2048)
    assert watched.__exit__(RuntimeError, RuntimeError(), None) is False
    assert seen.hidden_mib == 264


def test_assertion_names_amount_and_limit() -> None:
    card = Card()
    with assert_no_hidden_memory(64, card):
        card.launch(1040)  # 4.1 MiB
    expected = r"1844 MiB .* from 1040 to 8192 B.*64 MiB are allowed"
    with pytest.raises(AssertionError, match=expected), assert_no_hidden_memory(64, card):
        card.launch(8192)


def test_torch_is_subtracted_and_names_the_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card()
    modes: list[Any] = []

    class Mode:
        def __enter__(self) -> None:
            modes.append(self)

        def __exit__(self, *_: object) -> None:
            modes.pop()

    reserved = [0]
    torch = ModuleType("torch")
    torch.cuda = SimpleNamespace(  # type: ignore[attr-defined]
        is_initialized=lambda: True, memory_reserved=lambda: reserved[0], synchronize=lambda: None
    )
    dispatch = ModuleType("torch.utils._python_dispatch")
    dispatch.TorchDispatchMode = Mode  # type: ignore[attr-defined]
    for name, module in (("torch", torch), ("torch.utils", ModuleType("u")), (dispatch.__name__, dispatch)):
        monkeypatch.setitem(sys.modules, name, module)

    def allocate() -> None:
        reserved[0] += 20 * MIB
        card.free -= 20 * MIB

    with watch(card) as seen:
        modes[-1].__torch_dispatch__(lambda: allocate(), ())
        quantise = lambda: card.launch(14608)  # noqa: E731
        quantise.__qualname__ = "aten.quantise"
        modes[-1].__torch_dispatch__(quantise, ())
        modes[-1].__torch_dispatch__(lambda: None, ())
    assert seen.framework_mib == 20
    assert seen.hidden_mib == 3502.125
    assert seen.operation is not None
    assert "aten.quantise" in seen.operation


def test_no_driver_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr("ctypes.CDLL", fail)
    with pytest.raises(ToolError, match="no NVIDIA driver is installed here"), watch():
        pass


@pytest.mark.gpu
def test_this_card_at_rest() -> None:
    try:
        DriverLibrary()
    except ToolError as error:
        pytest.skip(str(error))
    with assert_no_hidden_memory(2) as seen:
        pass
    assert seen.limit_after == seen.limit_before >= 1024
