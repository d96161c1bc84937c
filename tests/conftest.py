"""What every test stands on: no test reads or writes the user's own cache."""

from __future__ import annotations

import pytest

from livingkit import check, run, tree

__all__ = ["check", "run", "tree"]  # fixtures, unless a test has its own of that name


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PTXGUARD_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield
