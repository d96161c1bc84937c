"""What every test stands on: no test reads or writes the user's own cache."""

from __future__ import annotations

import signal
import tempfile
import time
from pathlib import Path

import pytest

from livingkit import check, run, tree
from storekit import named_server, start_postgres

__all__ = ["check", "run", "tree"]  # fixtures, unless a test has its own of that name


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PTXGUARD_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def postgres():
    pytest.importorskip("sqlalchemy", reason="the extra [postgres] is not installed")
    psycopg = pytest.importorskip("psycopg", reason="the extra [postgres] is not installed")
    if (url := named_server()) is not None:
        yield url
        return
    with tempfile.TemporaryDirectory() as folder:
        url, process = start_postgres(Path(folder))
        try:
            yield _answering(url, process, psycopg)
        finally:
            process.send_signal(signal.SIGQUIT)  # at once: nobody needs its data
            process.wait(30)


def _answering(url, process, psycopg):
    for _ in range(100):
        try:
            psycopg.connect(url, connect_timeout=2).close()
        except psycopg.OperationalError:
            if process.poll() is not None:
                break
            time.sleep(0.1)
        else:
            return url
    pytest.skip("postgres does not start here")
