"""Damaged, odd and endless source through `check`: the right verdict or an error with its place, in bounded time."""

from __future__ import annotations

import json
import random
import time

import pytest
from click.testing import CliRunner

from ptxguard.cli import cli
from sourcekit import copy, kernel, write

COPY = copy("s", "b")
KERNEL = kernel(COPY)
LINE = KERNEL.split("\n").index(f"  {COPY}") + 1
LIMIT_S = 10  # of processor time, so that other work on the machine does not count


def check(folder, files, monkeypatch, *arguments):
    """Exit status, findings and errors of `check .`; no exception, in time."""
    write(folder, {"a.cu": files} if isinstance(files, (str, bytes)) else files)
    monkeypatch.chdir(folder)
    begun = time.process_time()
    done = CliRunner().invoke(cli, ["check", *(arguments or (".",)), "--output-format", "json"])
    assert time.process_time() - begun < LIMIT_S
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    report = json.loads(done.stdout)
    return done.exit_code, report["findings"], report["errors"]


def is_found(findings, line=LINE, column=17) -> bool:
    """Whether the copy of the kernel, and nothing else, is reported as an error at its place."""
    places = [(f["line"], f["column"]) for f in findings if f["severity"] == "error"]
    return places == [(line, column)]


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        pytest.param('const char *x = "never ends', "string literal never ends", id="string"),
        pytest.param("/* never ends", "comment never ends", id="comment"),
        pytest.param('const char *x = R"(never ends', "raw string never ends", id="raw string"),
        pytest.param('void f() { asm volatile("nop;" :: "r"(1)', "without a closing parenthesis", id="asm"),
        pytest.param("#if defined(A)", "#if defined(A) has no #endif", id="if"),
    ],
)
def test_what_never_ends_is_an_error_beside_the_finding(tmp_path, monkeypatch, tail, message):
    status, findings, errors = check(tmp_path, f"{KERNEL}{tail}\n", monkeypatch)
    assert status == 2
    assert is_found(findings)
    assert (errors[0]["path"], errors[0]["line"]) == ("a.cu", KERNEL.count("\n") + 1)
    assert message in errors[0]["message"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(random.Random(1).randbytes(200_000), "NUL bytes", id="garbage"),
        pytest.param(KERNEL.encode() + b"namespace a { " * 5_000, "nested too deeply", id="5,000 namespaces"),
        pytest.param(b"\0" * 100_000, "NUL bytes", id="zeros"),
        pytest.param(KERNEL.encode("utf-32-le"), "NUL bytes", id="UTF-32 without a mark"),
        pytest.param(
            b"\xff\xfe" + KERNEL.encode("utf-16-le")[:-1], "not valid utf-16", id="half a character"
        ),
        pytest.param(bytes(range(1, 32)) * 9 + b"\xff", "control characters", id="control characters"),
        pytest.param(b"//" + b" " * (33 << 20), "over the limit of 32 MiB", id="33 MiB on a line"),
        pytest.param(
            KERNEL.encode() + b"//" + b" " * (8 << 20), "over the limit of 8 MiB", id="8 MiB with asm"
        ),
    ],
)
def test_what_is_no_source_is_an_error_and_never_clean(tmp_path, monkeypatch, data, message):
    status, findings, errors = check(tmp_path, data, monkeypatch)
    assert (status, findings) == (2, [])
    assert [e["path"] for e in errors] == ["a.cu"]
    assert message in errors[0]["message"]


@pytest.mark.parametrize(
    ("data", "line"),
    [
        pytest.param(KERNEL.encode("utf-16"), LINE, id="UTF-16"),
        pytest.param(KERNEL.encode("utf-16-le"), LINE, id="UTF-16 without a mark"),
        pytest.param(KERNEL.encode("utf-16-be"), LINE, id="UTF-16, high byte first"),
        pytest.param(KERNEL.encode("utf-32"), LINE, id="UTF-32"),
        pytest.param(KERNEL.encode("utf-8-sig"), LINE, id="byte order mark"),
        pytest.param(("// caf\xe9\n" + KERNEL).encode("latin-1"), LINE + 1, id="Latin-1"),
        pytest.param(
            ("// \U0001f600 \u2028 \x85 \f\n" + KERNEL).encode(), LINE + 1, id="other line separators"
        ),
        pytest.param(KERNEL.replace("\n", "\r\n").encode(), LINE, id="CRLF"),
        pytest.param(KERNEL.rstrip("\n").encode(), LINE, id="no line end"),
        pytest.param(KERNEL.encode() + b"#define LAST \\", LINE, id="line joined to nothing"),
    ],
)
def test_every_encoding_and_line_end_keeps_the_place(tmp_path, monkeypatch, data, line):
    status, findings, errors = check(tmp_path, data, monkeypatch)
    assert (status, errors) == (1, [])
    assert is_found(findings, line)


DEEP = 20_000


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param("int x = " + "(" * DEEP + "1" + ")" * DEEP + ";", id="parentheses"),
        pytest.param("int x = a" + "[" * DEEP + "1" + "]" * DEEP + ";", id="brackets"),
        pytest.param("int x = " + "{" * DEEP + "1" + "}" * DEEP + ";", id="braces"),
        pytest.param("(" * DEEP, id="only opening"),
        pytest.param(")]}" * DEEP, id="only closing"),
        pytest.param("A" + "<A" * DEEP + ">" * DEEP + " x;", id="templates"),
        pytest.param("int f() { return " + "-" * DEEP + "1; }", id="signs"),
        pytest.param("namespace a { " * 100 + "}" * 100, id="namespaces"),
        pytest.param("int x[] = {" + "1, " * 50_000 + "};", id="long line"),
        pytest.param("#if 1\n" * 3_000 + "#endif\n" * 3_000, id="nested #if"),
        pytest.param("#if " + "(" * DEEP + "1" + ")" * DEEP + "\n#endif", id="parentheses in #if"),
        pytest.param("#if " + "9" * 10_000 + " || 1 << 1000000000000\n#endif", id="numbers without end"),
        pytest.param(
            "#if (((\n#elif\n#else\n#endif\n#include\n#define\n#undef\n#", id="directives cut short"
        ),
        pytest.param("void f() {" + 'asm("nop;");\n' * 5_000 + "}", id="many asm statements"),
        pytest.param("#define A B\n#define B A\n#define F(x) F(x) A\nint x = A, y = F(1);", id="macro cycle"),
        pytest.param("#include __FILE__\n#include STRANGE\n#include <a.cu\n", id="strange includes"),
    ],
)
def test_depth_and_length_hide_nothing(tmp_path, monkeypatch, tail):
    status, findings, errors = check(tmp_path, f"{KERNEL}{tail}\n", monkeypatch)
    assert (status, errors) == (1, [])
    assert is_found(findings)


def test_includes_in_a_circle(tmp_path, monkeypatch):
    files = {
        "a.cu": '#include "a.cu"\n#include "b.cuh"\n' + KERNEL,
        "b.cuh": '#include "c.cuh"\n#define OTHER 1\n',
        "c.cuh": '#include "b.cuh"\n#include "a.cu"\n#include "missing.h"\n',
    }
    status, findings, errors = check(tmp_path, files, monkeypatch)
    assert (status, errors) == (1, [])
    assert is_found(findings, LINE + 2)


PARAMETERS = "(unsigned s, const void *src, unsigned b, int n)"


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        pytest.param(kernel("s = s; " + COPY), "error", id="variable given to itself"),
        pytest.param(
            kernel("unsigned z = peer, y = z; z = y; s = y; " + COPY), "warning", id="circle of values"
        ),
        pytest.param(
            f"__device__ void f{PARAMETERS} {{ if (n) f(s, src, b, n - 1); {COPY} }}\n"
            + kernel("f(s, src, b, 3);"),
            "error",
            id="recursion",
        ),
        pytest.param(
            f"__device__ void g{PARAMETERS};\n"
            f"__device__ void f{PARAMETERS} {{ g(s, src, b, n); {COPY} }}\n"
            f"__device__ void g{PARAMETERS} {{ f(s, src, b, n); }}\n" + kernel("f(peer, src, b, 3);"),
            "warning",
            id="recursion of two",
        ),
        pytest.param(
            f"__device__ void f0{PARAMETERS} {{ {COPY} }}\n"
            + "".join(f"__device__ void f{i + 1}{PARAMETERS} {{ f{i}(s, src, b, n); }}\n" for i in range(500))
            + kernel("f500(s, src, b, 3);"),
            "warning",
            id="500 callers in a row",
        ),
        pytest.param(
            kernel(
                "unsigned v0 = s;"
                + "".join(f"unsigned v{i + 1} = v{i};" for i in range(2_000))
                + copy("v2000", "b")
            ),
            "warning",
            id="2,000 variables in a row",
        ),
    ],
)
def test_circles_and_chains_of_definitions(tmp_path, monkeypatch, text, severity):
    status, findings, errors = check(tmp_path, text, monkeypatch)
    assert errors == []
    assert [f["severity"] for f in findings] == [severity]
    assert status == int(severity == "error")


def test_more_copies_than_are_judged_is_an_error(tmp_path, monkeypatch):
    text = f"__device__ void f{PARAMETERS} {{\n" + f"{COPY}\n" * 1_002 + "}\n"
    status, findings, errors = check(tmp_path, text, monkeypatch)
    assert (status, len(findings)) == (2, 1_001)
    assert errors[0]["line"] == 1_003
    assert "more than 1000 bulk copies" in errors[0]["message"]


@pytest.mark.parametrize("macros", ["#define M0 M1 M1\n", "#define M0 M1 M0\n"], ids=["doubling", "circle"])
def test_macros_that_double_each_other(tmp_path, monkeypatch, macros):
    macros += "".join(f"#define M{i} M{i + 1} M{i + 1}\n" for i in range(1, 40)) + "#define M40 M0\n"
    text = f"{macros}{KERNEL}__device__ void f() {{ asm(M0); }}\n"
    status, findings, errors = check(tmp_path, text, monkeypatch)
    assert status == 2
    assert is_found(findings, LINE + 41)
    assert "asm text of more macros than are followed" in errors[0]["message"]


def test_a_link_to_nothing_and_a_missing_path_are_errors(tmp_path, monkeypatch):
    (tmp_path / "gone.cu").symlink_to(tmp_path / "nowhere.cu")
    status, findings, errors = check(tmp_path, KERNEL, monkeypatch, "gone.cu", "a.cu", "never.cu")
    assert status == 2
    assert is_found(findings)
    assert [e["path"] == "never.cu" for e in errors].count(True) == len(errors) - 1 == 1
