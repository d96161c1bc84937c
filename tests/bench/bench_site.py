"""Clicks through a served store with 16 clients that pause a second, then without a pause: latency, rate, memory.

    python tests/bench/bench_site.py STORE [--clients 16] [--seconds 30]

Starts `ptxguard serve` as a process of its own. Every client goes through the pages in an order of its own; the
bytes are counted as they come over the wire (gzip).
"""

from __future__ import annotations

import argparse
import http.client
import random
import re
import statistics
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

from ptxguard.store.rows import FindingFilter, KernelFilter
from ptxguard.store.store import open_store


def addresses(place):
    """Pages of every kind, with filters, deep pages and single findings and kernels of the store."""
    with open_store(place) as store:
        runs = store.runs()
        findings = store.findings(FindingFilter(), 1, 1000).rows
        kernels = store.kernels(KernelFilter(with_syscall=True), 1, 200).rows
        facets = store.facets(FindingFilter())
        targets = [one.value for one in store.kernel_facets(KernelFilter()) if one.name == "target"]
        deep = store.kernels(KernelFilter(), 1, 100).count
    source = [run.number for run in runs if run.kind == "source" and not run.thinned]
    found = "/ /findings /kernels /kernels?syscall=yes /runs /rules /atlas /gpus /probes /about /gpus/rtx-5090".split()
    found += [f"/runs/{run.number}" for run in runs if run.kind != "probe"]
    found += [f"/compare/{old}/{new}" for new, old in pairwise(source)]
    found += [f"/findings?severity={word}&page={page}" for word in ("error", "note") for page in (1, 2)]
    found += [
        f"/findings?{one.name}={one.value}" for one in facets if one.name in ("code", "verdict", "target")
    ]
    found += [f"/findings/{one.fingerprint}" for one in random.sample(findings, min(20, len(findings)))]
    found += [f"/kernels/{one.run}/{one.place + 1}" for one in random.sample(kernels, min(20, len(kernels)))]
    found += [f"/kernels?target={target}&order=registers" for target in targets]
    found += [
        f"/kernels?page={deep // 2}",
        f"/kernels?page={deep}",
        "/kernels?name=quantize",
        "/search?q=quantize",
    ]
    found += ["/findings?mib=1024&gpu=GB10", "/findings.json?severity=error", "/kernels.csv?syscall=yes"]
    return found


def client(port, urls, pause, until, out):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    order = random.sample(urls, len(urls))
    number = 0
    time.sleep(random.random() * pause)
    while time.monotonic() < until:
        url = order[number % len(order)]
        number += 1
        began = time.perf_counter()
        connection.request("GET", url, headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        body = answer.read()
        out.append((url, answer.status, (time.perf_counter() - began) * 1000, len(body)))
        time.sleep(pause)


def load(port, urls, clients, pause, seconds):
    until = time.monotonic() + seconds
    out = []
    threads = [threading.Thread(target=client, args=(port, urls, pause, until, out)) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return out


def tell(name, out, seconds):
    times = sorted(one[2] for one in out)
    wrong = [one for one in out if one[1] != 200]
    p95 = times[int(len(times) * 0.95)]
    print(
        f"{name}: {len(out)} pages, {len(out) / seconds:.0f}/s, median {statistics.median(times):.0f} ms,"
        f" p95 {p95:.0f} ms, slowest {times[-1]:.0f} ms, {len(wrong)} not 200"
    )
    for url, _, ms, _ in sorted(out, key=lambda one: -one[2])[:5]:
        print(f"    {ms:.0f} ms {url}")


def memory_mib(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return tuple(int(re.search(rf"{name}:\s+(\d+)", status)[1]) // 1024 for name in ("VmRSS", "VmHWM"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--threads", type=int, default=8)
    asked = parser.parse_args()
    random.seed(7)
    urls = addresses(asked.store)
    command = [sys.executable, "-m", "ptxguard", "serve", "--store", asked.store, "--port", "0"]
    server = subprocess.Popen(
        [*command, "--threads", str(asked.threads)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        port = int(re.search(r":(\d+)/", server.stdout.readline())[1])
        largest = {}
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        slowest = 0.0
        for url in urls:
            began = time.perf_counter()
            connection.request("GET", url, headers={"Accept-Encoding": "gzip"})
            answer = connection.getresponse()
            largest[url] = len(answer.read())
            slowest = max(slowest, time.perf_counter() - began)
            assert answer.status == 200, (url, answer.status)
        print(f"{len(urls)} addresses; the slowest first answer took {slowest * 1000:.0f} ms")
        top = max(largest, key=largest.get)
        print(f"largest page {largest[top] / 1024:.0f} KiB compressed: {top}")
        tell("pause of 1 s", load(port, urls, asked.clients, 1, asked.seconds), asked.seconds)
        tell("closed loop", load(port, urls, asked.clients, 0, asked.seconds // 3), asked.seconds // 3)
        print("memory {} MiB, at most {} MiB".format(*memory_mib(server.pid)))
    finally:
        server.terminate()


if __name__ == "__main__":
    main()
