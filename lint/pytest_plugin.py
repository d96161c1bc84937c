"""A pytest fixture over `memory.assert_no_hidden_memory`; load it with `-p ptxguard.pytest_plugin`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ptxguard import memory
from ptxguard.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager


@pytest.fixture
def assert_no_hidden_memory() -> Callable[..., AbstractContextManager[memory.Seen]]:
    """Context manager to wrap a step in, `max_mib` is 64 by default; skips where there is no GPU."""
    try:
        memory.DriverLibrary()
    except ToolError as error:
        pytest.skip(str(error))
    return memory.assert_no_hidden_memory
