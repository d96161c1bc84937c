"""Findings, runs and stores for the tests of the store."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import uuid
from pathlib import Path

import pytest

from ptxguard.finding import Confidence, Cost, Finding, KernelPlace, Severity
from ptxguard.store.rows import StoredArtifact
from ptxguard.store.write import NewKernel, NewRun

TILE_2D = "__cuda_syscall_cp_async_bulk_tensor_2d_tile_unicast"


def finding(fingerprint, path="a.cu", line=3, gpu="RTX 5090", mib=3382.7, **changed):
    fields = {
        "code": "TMA001",
        "rule": "cluster-copy-to-own-cta",
        "severity": Severity.ERROR,
        "confidence": Confidence.HIGH,
        "message": "calls the driver",
        "function": "load_tile",
        "kernels": (KernelPlace("gemm", path, 40),),
        "targets": {"sm_90": "excluded", "sm_120": "compiled"},
        "cluster": {"verdict": "one"},
        "address": {"verdict": "local"},
        "syscall": TILE_2D,
        "cost": (Cost(gpu, "sm_120", 14608, mib, 3382, 3345.0, 3723.0, "public measurement", "somebody"),),
    }
    return Finding(
        path=path,
        line=line,
        column=1,
        end_line=line,
        end_column=9,
        fingerprint=fingerprint,
        **{**fields, **changed},
    )


def source_run(*fingerprints, created="2026-12-01T05:00:00Z", subject="te", **changed):
    records = [finding(name).record() for name in fingerprints]
    return NewRun("source", subject, **{"findings": records, "created": created, **changed})


def kernel(name, target="sm_120", **changed):
    fields = {
        "artifact": 0,
        "image": 0,
        "demangled": name,
        "registers": 32,
        "stack_bytes": 0,
        "stack_unknown": "",
        "cluster_dims": None,
        "syscalls": (),
        "externs": (),
    }
    return NewKernel(name=name, target=target, **{**fields, **changed})


def _server_tool(name):
    """A program of the server; Debian keeps them off PATH, by version."""
    debian = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(debian[-1]) if debian else None)


def start_postgres(folder):
    """URL of a server with its data in a folder, and its process; None where there is no PostgreSQL."""
    found = {name: _server_tool(name) for name in ("initdb", "postgres")}
    if None in found.values():
        pytest.skip(
            "PostgreSQL (initdb, postgres) is not installed; PTXGUARD_TEST_POSTGRES may name a server"
        )
    data = folder / "data"
    user = "postgres" if os.geteuid() == 0 else None  # the server refuses to run as root
    try:
        if user is not None:
            shutil.chown(folder, user)
    except LookupError:
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
    done = subprocess.run(
        [found["initdb"], "-D", data, "-U", "tester", "--auth=trust", "--no-sync"],
        capture_output=True,
        text=True,
        user=user,
        cwd=folder,
    )
    if done.returncode:
        pytest.skip(f"initdb does not run here: {done.stderr.strip().splitlines()[-1]}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [
        "-p",
        str(port),
        "-c",
        "fsync=off",
        "-c",
        "listen_addresses=127.0.0.1",
        "-c",
        f"unix_socket_directories={folder}",
    ]
    with open(folder / "log", "w") as log:
        process = subprocess.Popen(
            [found["postgres"], "-D", data, *options], stdout=log, stderr=log, user=user, cwd=folder
        )
    return f"postgresql://tester@127.0.0.1:{port}/postgres", process


def fresh_database(url):
    """URL of a new, empty database on a server."""
    import psycopg

    name = f"t{uuid.uuid4().hex}"
    with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return url.rsplit("/", 1)[0] + "/" + name


def named_server():
    """A server that the environment names, as CI does."""
    return os.environ.get("PTXGUARD_TEST_POSTGRES")


def artifact():
    """A library that a binary run has read."""
    return StoredArtifact("lib.so", None, "0" * 64)
