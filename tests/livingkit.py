"""Fixtures of the tests about living with findings: a tree of files, the command line, what `check` finds."""

from __future__ import annotations

import io
import json
import sys

import pytest

from ptxguard import cli

OPCODE = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
COPY = f'  asm volatile("{OPCODE} [%0], [%1], 1024, [%2];"BEHIND\n      :: "r"(s), "l"(src), "r"(b) : "memory");\n'
KERNEL = (
    "__global__ void pull(const void *src) {\n"
    "  __shared__ alignas(128) float box[256];\n"
    "  __shared__ unsigned long long mb;\n"
    "  unsigned s = (unsigned)__cvta_generic_to_shared(box), b = (unsigned)__cvta_generic_to_shared(&mb);\n"
    "BEFORE"
    f"{COPY}"
    "}\n"
)


def source(before="", behind="", name="pull"):
    return KERNEL.replace("BEFORE", before).replace("BEHIND", behind).replace("pull", name)


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A function that writes files into the working directory."""
    monkeypatch.chdir(tmp_path)

    def write(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/").replace("_", ".", 1)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return write


@pytest.fixture
def run(monkeypatch, capsys):
    def call(*arguments, stdin=None):
        monkeypatch.setattr(sys, "argv", ["ptxguard", *arguments])
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return call


@pytest.fixture
def check(run):
    """Exit status and (code, path, line) of what `check` finds, and what it says beside."""

    def call(*arguments, stdin=None):
        status, out, err = run("check", *arguments, "--output-format", "json", stdin=stdin)
        found = json.loads(out)["findings"] if out else []
        return status, [(f["code"], f["path"], f["line"]) for f in found], err

    return call


FOUND = ("TMA001", "a.cu", 5)
