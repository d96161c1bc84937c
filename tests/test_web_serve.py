"""`ptxguard serve` as a process: what it says at the start, many readers beside writers, and a sudden end."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

pytest.importorskip("flask", reason="the site needs the extra [web]")

import webkit
from ptxguard.commands.serve import TOKEN_VARIABLE
from ptxguard.store.rows import FindingFilter
from ptxguard.store.store import open_store
from storekit import fresh_database

WRITERS, READERS, UPLOADS = 2, 16, 12
DATABASES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]


@pytest.fixture(params=DATABASES)
def place(request, tmp_path):
    url = None if request.param == "sqlite" else fresh_database(request.getfixturevalue("postgres"))
    return webkit.make_store(tmp_path, url)


@pytest.fixture
def serve():
    """Starts servers; (process, port, first line)."""
    started = []

    def start(place, *arguments, token=webkit.TOKEN, **environment):
        process = subprocess.Popen(
            [sys.executable, "-m", "ptxguard", "serve", "--store", place, "--port", "0", *arguments],
            env={**os.environ, TOKEN_VARIABLE: token, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        line = process.stdout.readline()
        found = re.search(r":(\d+)/", line)
        return process, int(found[1]) if found else None, line

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ask(port, method, path, body=None, headers=()):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body, dict(headers))
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def upload(port, number):
    finding = webkit.source_finding(f"{number:016x}:1").record()
    report = {"version": 1, "tool": {"name": "ptxguard", "version": "0"}, "findings": [finding], "errors": []}
    headers = {
        "Authorization": f"Bearer {webkit.TOKEN}",
        "Content-Type": "application/json",
        "Idempotency-Key": f"job-{number}",
    }
    return ask(port, "POST", f"/api/runs?subject=writer-{number % WRITERS}", json.dumps(report), headers)


def test_two_writers_and_sixteen_readers_lose_nothing(place, serve):
    _, port, line = serve(place, "--uploads-per-minute", "100000")
    assert "uploads on" in line
    wrong, stop = [], threading.Event()

    def write(first):
        for number in range(first, WRITERS * UPLOADS, WRITERS):
            status, body = upload(port, number)
            if status != 201:
                wrong.append((status, body))

    def read(number):
        pages = ["/", "/findings", "/runs", "/kernels", f"/findings?severity={('error', 'note')[number % 2]}"]
        while not stop.is_set():
            for page in pages:
                status, body = ask(port, "GET", page)
                if status != 200:
                    wrong.append((page, status, body[:300]))

    readers = [threading.Thread(target=read, args=(number,)) for number in range(READERS)]
    writers = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for thread in (*readers, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    for thread in readers:
        thread.join()
    assert wrong == []
    with open_store(place) as store:
        kept = {run.key for run in store.runs() if run.key.startswith("job-")}
        assert kept == {f"job-{number}" for number in range(WRITERS * UPLOADS)}
        for subject in ("writer-0", "writer-1"):
            runs = store.runs("source", subject)
            assert sum(store.states(run.number).get("new", 0) for run in runs) == UPLOADS


def test_a_sudden_end_loses_nothing_that_was_acknowledged(place, serve):
    process, port, _ = serve(place, "--uploads-per-minute", "100000")
    acknowledged = []

    def write(first):
        for number in range(first, 10_000, WRITERS):
            try:
                status, body = upload(port, number)
            except (OSError, http.client.HTTPException):
                return
            if status == 201:
                acknowledged.append((number, json.loads(body)["run"]))

    writers = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for thread in writers:
        thread.start()
    while len(acknowledged) < 10:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    for thread in writers:
        thread.join()
    with open_store(place) as store:
        for number, run in acknowledged:
            assert store.run(run).key == f"job-{number}"
            (row,) = store.findings(FindingFilter(run=run)).rows
            assert row.fingerprint == f"{number:016x}:1"
        whole = [run for run in store.runs() if run.key.startswith("job-")]
        assert all(store.findings(FindingFilter(run=run.number)).total == 1 for run in whole)
    # What was not acknowledged can be sent again; what was, is known.
    _, port, _ = serve(place, "--uploads-per-minute", "100000")
    assert upload(port, acknowledged[0][0])[0] == 200


def test_it_is_read_only_and_of_this_machine_unless_told(tmp_path, serve):
    _, port, line = serve(webkit.make_store(tmp_path), token="")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/ \(read-only\)\n", line)
    assert upload(port, 1)[0] == 404
    assert ask(port, "GET", "/", headers={"Host": "evil.example"}.items())[0] == 400


@pytest.mark.parametrize(
    ("arguments", "token", "said"),
    [
        (("--store", "none.db"), "", "there is no such store"),
        ((), "short", "16 or more printable ASCII characters"),
        (("--token-file", "none.txt"), "", "the token cannot be read from it"),
        (("--gpu", "RTX 1"), "", "no GPU is called"),
    ],
)
def test_what_cannot_be_served_is_one_sentence_and_exit_2(tmp_path, serve, arguments, token, said):
    process, port, _ = serve(webkit.make_store(tmp_path), *arguments, token=token)
    assert port is None
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err.count("\n")) == (2, 1)
    assert said in err


def test_a_port_that_is_taken_is_said(tmp_path, serve):
    place = webkit.make_store(tmp_path)
    _, port, _ = serve(place)
    process, _, _ = serve(place, "--port", str(port))
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (
        2,
        f"ptxguard: cannot listen on 127.0.0.1:{port}: Address already in use; try --port 0\n",
    )
