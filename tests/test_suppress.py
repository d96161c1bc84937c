"""Comments that suppress findings, and those that do not; through the command line."""

from __future__ import annotations

import pytest

from livingkit import COPY, KERNEL, OPCODE, source


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


def test_a_code_that_no_rule_has_is_reported(tree, check, run):
    tree(a_cu=source("  // ptxguard: ignore[TMA0O1]\n"))
    assert check(".")[1] == [("SUP001", "a.cu", 5), ("TMA001", "a.cu", 6)]
    assert "there is no rule TMA0O1; did you mean TMA001?" in run("check", ".")[1]
    tree(a_cu="// ptxguard: ignore[TMA101]\n")  # of scan
    assert check(".")[1] == []


def test_an_enable_is_about_its_own_code_and_about_a_range(tree, check):
    disabled = "// ptxguard: disable[TMA]\n"
    tree(a_cu=disabled + "// ptxguard: enable[TMA001]\n" + source())
    assert check(".")[1] == [("SUP001", "a.cu", 1), ("TMA001", "a.cu", 7)]
    tree(a_cu=disabled + "// ptxguard: enable[TMA002]\n" + source())
    assert check(".")[1] == []
    tree(a_cu="// ptxguard: enable[TMA001]\n// ptxguard: enable\n")
    assert check(".")[1] == [("SUP001", "a.cu", 1), ("SUP002", "a.cu", 2)]


def test_a_comment_about_a_rule_that_does_not_run_is_not_called_unused(tree, check):
    tree(a_cu="// ptxguard: ignore[TMA002]\n")
    assert check(".", "--select", "TMA001")[1] == []


def test_comments_of_python_and_ptx_files(tree, check):
    tree(
        a_py="# ptxguard: ignore[TMA001]\n",
        a_ptx="// ptxguard: file-ignore[TMA001]\n.version 8.6\n.target sm_120a\n.address_size 64\n",
    )
    assert check(".")[1] == [("SUP001", "a.ptx", 1), ("SUP001", "a.py", 1)]


INSTRUCTION = f"{OPCODE} [%0], [%1], 1024, [%2];"
BEFORE = "  // ptxguard: ignore[TMA001]\n"
BEHIND = "  // ptxguard: ignore[TMA001]"
OPERANDS = ':: "r"(s), "l"(src), "r"(b)'


@pytest.mark.parametrize(
    "statement",
    [
        f'{BEFORE}  asm volatile(\n    "{INSTRUCTION}"\n    {OPERANDS});\n',
        f'{BEFORE}  asm volatile(R"({{\n\n    {INSTRUCTION}\n  }})" {OPERANDS});\n',
        f'  asm volatile(R"({{\n    {INSTRUCTION}\n  }})" {OPERANDS});{BEHIND}\n',
        f'  asm volatile(\n{BEFORE}    R"({{\n    {INSTRUCTION}\n  }})" {OPERANDS});\n',
        f'  // NOLINTNEXTLINE(ptxguard-TMA001)\n  asm volatile(\n    "{INSTRUCTION}"\n    {OPERANDS});\n',
    ],
)
def test_a_comment_beside_a_statement_is_about_all_of_it(tree, check, statement):
    tree(a_cu=KERNEL.replace(COPY, statement).replace("BEFORE", ""))
    assert check(".")[:2] == (0, [])


@pytest.mark.parametrize(
    "statement",
    [
        f'  asm volatile("nop;"\n    ::);{BEHIND}\n  asm volatile("{INSTRUCTION}" {OPERANDS});\n',
        f'{BEFORE}  asm volatile("nop;" ::);\n  asm volatile("{INSTRUCTION}" {OPERANDS});\n',
        f'  asm volatile("{INSTRUCTION}"\n{BEFORE}    {OPERANDS});\n',
    ],
)
def test_a_comment_is_about_no_other_statement(tree, check, statement):
    tree(a_cu=KERNEL.replace(COPY, statement).replace("BEFORE", ""))
    assert sorted(row[0] for row in check(".")[1]) == ["SUP001", "TMA001"]


TRITON = """import triton.language as tl


def pull(s, src, b):
    HERE
    return tl.inline_asm_elementwise(\"\"\"{
        INSTRUCTION
    }\"\"\", "=r,r,l,r", [s, src, b], dtype=tl.int32, is_pure=False, pack=1)BEHIND
""".replace("INSTRUCTION", INSTRUCTION.replace("%", "$"))


@pytest.mark.parametrize(
    ("here", "behind", "codes"),
    [
        ("pass", "", ["TMA001"]),
        ("# ptxguard: ignore[TMA001] reason", "", []),
        ("pass", "  # ptxguard: ignore[TMA001]", []),
        ('"# ptxguard: ignore[TMA001]"', "", ["TMA001"]),  # a literal is no comment
        ("# ptxguard: ignore[TMA002]", "", ["SUP001", "TMA001"]),
    ],
)
def test_a_comment_beside_a_literal_of_python_is_about_all_of_it(tree, check, here, behind, codes):
    tree(a_py=TRITON.replace("HERE", here).replace("BEHIND", behind))
    assert [row[0] for row in check(".")[1]] == codes
