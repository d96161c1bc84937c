"""Living with findings: configuration, excludes, suppression, baseline, changed lines; through the command line."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest

from ptxguard import cli
from ptxguard.globs import matches

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

# Suppression ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ("", "  // ptxguard: ignore[TMA001] reason"),
        ("", "  /* ptxguard: ignore[TMA] */"),
        ("", "  // NOLINT(ptxguard-TMA001)"),
        ("", "  // NOLINT(bugprone-foo, ptxguard-TMA001)"),
        ("  // ptxguard: ignore[ASM001, tma001]\n", ""),
        ("  // NOLINTNEXTLINE(ptxguard-TMA001)\n", ""),
        ("  // ptxguard: disable[TMA001]\n", ""),
        ("  // ptxguard: file-ignore[TMA001] generated\n", ""),
    ],
)
def test_a_comment_suppresses_its_finding(tree, check, before, behind):
    tree(a_cu=source(before, behind))
    status, found, err = check(".")
    assert (status, found) == (0, [])
    assert "1 suppressed by comments" in err


@pytest.mark.parametrize(
    ("before", "behind", "line"),
    [
        ("", '  "// ptxguard: ignore[TMA001]"', 5),  # a literal is no comment
        ("  // ptxguard: ignore[TMA001]\n\n", "", 7),  # not the line before
        ("  // NOLINT\n", "", 6),
        ("  // NOLINT(TMA001)\n", "", 6),
        ("  // ptxguard: disable[TMA001]\n  // ptxguard: enable[TMA001]\n", "", 7),
    ],
)
def test_what_is_no_such_comment_suppresses_nothing(tree, check, before, behind, line):
    tree(a_cu=source(before, behind))
    status, found, _ = check(".")
    assert status == 1
    assert ("TMA001", "a.cu", line) in found


def test_a_range_ends_where_it_is_enabled_again(tree, check):
    first = source("  // ptxguard: disable[TMA001]\n", "", "pull").replace(
        "}\n", "}\n// ptxguard: enable[TMA001]\n"
    )
    tree(a_cu=first + source(name="push"))
    assert [row[0] for row in check(".")[1]] == ["TMA001"]


def test_an_unused_comment_is_reported_and_one_without_code_too(tree, check):
    tree(
        a_cu=source(behind="  // ptxguard: ignore").replace("cluster", "cta")
        + "// ptxguard: ignore[TMA002]\n"
    )
    status, found, _ = check(".")
    assert status == 0  # warnings
    assert found == [("SUP002", "a.cu", 5), ("SUP001", "a.cu", 8)]


def test_a_comment_about_a_rule_that_does_not_run_is_not_called_unused(tree, check):
    tree(a_cu="// ptxguard: ignore[TMA002]\n")
    assert check(".", "--select", "TMA001")[1] == []


def test_comments_of_python_and_ptx_files(tree, check):
    tree(
        a_py="# ptxguard: ignore[TMA001]\n",
        a_ptx="// ptxguard: file-ignore[TMA001]\n.version 8.6\n.target sm_120a\n.address_size 64\n",
    )
    assert check(".")[1] == [("SUP001", "a.ptx", 1), ("SUP001", "a.py", 1)]


# Configuration --------------------------------------------------------------------------------------


def test_the_nearest_configuration_holds(tree, check, tmp_path, monkeypatch):
    tree(a_cu=source(), sub__a_cu=source())
    (tmp_path / "pyproject.toml").write_text('[tool.ptxguard]\nignore = ["TMA001"]\n')
    assert check(".")[0] == 0
    (tmp_path / "sub" / "ptxguard.toml").write_text('select = ["TMA"]\n')
    monkeypatch.chdir(tmp_path / "sub")
    assert check(".")[0] == 1
    assert check(".", "--config", "../pyproject.toml")[0] == 0
    monkeypatch.chdir(tmp_path)
    assert check(".", "--isolated")[0] == 1
    assert check(".", "--ignore", "ASM001")[0] == 1  # the command line wins


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ignroe = []", "unknown key 'ignroe'; did you mean 'ignore'?"),
        ("cuda_min = '12.4'", "did you mean 'cuda-min'?"),
        ("ignore = 'TMA001'", "wants a list of texts"),
        ("fail-on = 'bad'", "fail-on"),
        ("severity = {TMA001 = 'fatal'}", "'fatal' is none of"),
        ("severity = {TMA9 = 'note'}", "there is no rule 'TMA9'"),
        ("fail-above = 'much'", "is no size"),
        ("a =", "is no TOML"),
    ],
)
def test_a_wrong_configuration_is_an_error(tree, run, tmp_path, text, words):
    tree(a_cu=source())
    (tmp_path / "ptxguard.toml").write_text(text)
    status, out, err = run("check", ".")
    assert (status, out) == (2, "")
    assert words in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ('severity = {TMA001 = "note"}', 0),
        ('severity = {TMA001 = "off"}', 0),
        ('per-file-ignores = {"a.cu" = ["TMA001"]}', 0),
        ('per-file-ignores = {"b.cu" = ["TMA001"]}', 1),
        ('exclude = ["a.cu"]', 0),
        ('targets = ["sm_90a"]', 0),
        ('defines = ["OFF"]', 1),
        ('fail-above = "5 GiB"', 0),
        ('fail-above = "256 MiB"', 1),
        ('fail-above = "3000 MiB"\ngpu = ["GB10"]', 0),
        ('fail-on = "warning"', 1),
    ],
)
def test_each_key_has_its_effect(tree, check, tmp_path, text, status):
    tree(a_cu=source())
    (tmp_path / "ptxguard.toml").write_text(text)
    assert check(".")[0] == status


def test_globs_of_a_configuration_are_seen_from_its_folder(tree, check, tmp_path, monkeypatch):
    tree(sub__deep__a_cu=source())
    (tmp_path / "sub" / "ptxguard.toml").write_text('exclude = ["deep/a.cu"]')
    monkeypatch.chdir(tmp_path / "sub" / "deep")
    assert check(".", "--isolated")[0] == 1
    assert check(".")[0] == 0


# Excludes -------------------------------------------------------------------------------------------


def test_a_named_file_is_excluded_only_by_force(tree, check):
    tree(a_cu=source())
    assert check("a.cu", "--exclude", "a.cu")[0] == 1
    assert check("a.cu", "--exclude", "a.cu", "--force-exclude") == (0, [], "")
    assert check(".", "--exclude", "a.cu") == (0, [], "")


@pytest.mark.parametrize(
    ("path", "glob", "meant"),
    [
        ("a.cu", "a.cu", True),
        ("src/a.cu", "a.cu", True),
        ("src/a.cu", "src", True),
        ("src/a.cu", "src/", True),
        ("src/a.cu", "./src/*", True),
        ("src/deep/a.cu", "src/**", True),
        ("src/deep/a.cu", "**/*.cu", True),
        ("a.cu", "**/*.cu", True),
        ("lib/src/a.cu", "src/a.cu", False),
        ("src/a.cuh", "*.cu", False),
        ("srcs/a.cu", "src", False),
    ],
)
def test_globs(path, glob, meant):
    assert matches(path, [glob]) is meant


def test_standard_input_stands_for_a_file(tree, check):
    tree(a_cu="int x;\n", b_cu=source())
    assert check("--stdin-filename", "a.cu", stdin=source())[1] == [FOUND]
    assert check("--stdin-filename", "b.cu", stdin="int x;\n")[1] == []
    assert check("--stdin-filename", "b.cu", "a.cu", stdin="")[0] == 2


def test_statistics_and_confidence(tree, check):
    tree(a_cu=source())
    assert "    1  TMA001  cluster-form-copy" in check(".", "--statistics")[2]
    assert check(".", "--min-confidence", "high")[1] == [FOUND]


# Baseline -------------------------------------------------------------------------------------------


def test_a_baseline_leaves_out_what_is_known(tree, run, check, tmp_path):
    tree(a_cu=source())
    assert run("baseline", ".", "--output-file", "known.txt")[0] == 0
    assert check(".", "--baseline", "known.txt")[:2] == (0, [])
    tree(a_cu="\n" * 200 + source())  # moved lines
    assert check(".", "--baseline", "known.txt")[0] == 0
    (tmp_path / "a.cu").rename(tmp_path / "renamed.cu")
    assert check(".", "--baseline", "known.txt")[0] == 0
    tree(b_cu=source(name="push"))
    assert check(".", "--baseline", "known.txt")[:2] == (1, [("TMA001", "b.cu", 5)])


def test_a_second_copy_in_the_same_function_is_new(tree, run, check):
    tree(a_cu=source())
    run("baseline", ".", "--output-file", "known.txt")
    copy = COPY.replace("BEHIND", "")
    tree(a_cu=source(before=copy))
    assert check(".", "--baseline", "known.txt")[0] == 1


def test_what_is_gone_is_listed(tree, run, check):
    tree(a_cu=source())
    run("baseline", ".", "--output-file", "known.txt")
    tree(a_cu="int x;\n")
    status, _, err = check(".", "--baseline", "known.txt")
    assert status == 0
    assert "gone from the code" in err
    assert "TMA001 a.cu pull" in err


@pytest.mark.parametrize("text", [None, "no baseline\n", "\xff\x00"])
def test_a_baseline_that_is_none_is_an_error(tree, run, tmp_path, text):
    tree(a_cu=source())
    if text is not None:
        (tmp_path / "known.txt").write_bytes(text.encode("latin-1"))
    status, out, err = run("check", ".", "--baseline", "known.txt")
    assert (status, out) == (2, "")
    assert "baseline" in err


# Changed lines --------------------------------------------------------------------------------------

HELPER = (
    "__device__ void load(unsigned s, const void *src, unsigned b) {\n" + COPY.replace("BEHIND", "") + "}\n"
)
KERNELS = "__global__ void k(unsigned s, const void *src, unsigned b) { load(s, src, b); }\n"
LAUNCH = "void go(const void *p) {\n  k<<<1, 32>>>(1, p, 2);\n}\n"


@pytest.fixture
def repository(tree):
    tree(a_cu=HELPER + KERNELS + LAUNCH, other_cu="int x;\n")
    identity = ("-c", "user.name=t", "-c", "user.email=t@t")
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "add", "-A"], check=True)
    subprocess.run(["git", *identity, "commit", "-qm", "first"], check=True)
    return tree


def test_old_findings_are_left_out(repository, check):
    assert check(".")[1] == [("TMA001", "a.cu", 2)]
    assert check(".", "--new-from-rev", "HEAD")[:2] == (0, [])
    repository(other_cu="int y;\n")
    assert check(".", "--new-from-rev", "HEAD")[:2] == (0, [])


def test_a_changed_copy_and_a_new_file_are_new(repository, check):
    repository(a_cu=HELPER.replace("1024", "2048") + KERNELS + LAUNCH, b_cu=source())
    assert check(".", "--new-from-rev", "HEAD")[1] == [("TMA001", "a.cu", 2), ("TMA001", "b.cu", 5)]
    assert check(".", "--new-from-rev", "HEAD", "--diff-filter", "M")[1] == [("TMA001", "a.cu", 2)]


def test_a_changed_launch_brings_the_finding_to_its_line(repository, check):
    repository(a_cu=HELPER + KERNELS + LAUNCH.replace("32", "64"))
    assert check(".", "--new-from-rev", "HEAD")[1] == [("TMA001", "a.cu", 2), ("TMA001", "a.cu", 7)]


def test_a_revision_that_is_none_is_an_error(repository, run, tmp_path, monkeypatch):
    status, _, err = run("check", ".", "--new-from-rev", "nowhere")
    assert status == 2
    assert "--new-from-rev" in err
    (tmp_path / "out").mkdir()
    assert run("check", ".", "--new-from-rev", "--output=x")[0] == 2


# Doctor ---------------------------------------------------------------------------------------------


def test_doctor_tells_what_is_there(tree, run, tmp_path, monkeypatch):
    tree(ptxguard_toml='ignore = ["TMA002"]\n')
    monkeypatch.setenv("PATH", str(tmp_path))
    status, out, _ = run("doctor")
    assert status == 0
    assert "configuration: ptxguard.toml" in out
    assert "ignore = ['TMA002']" in out
    assert "missing  nvcc" in out
    tree(ptxguard_toml="x = 1\n")
    assert run("doctor")[0] == 2
