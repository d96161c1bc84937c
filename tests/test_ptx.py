"""The PTX grammar: what it reads, what it refuses and where, and that nothing is lost."""

import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxguard.errors import ParseError
from ptxguard.source import ptxtables
from ptxguard.source.ptx import parse_asm, parse_statements
from ptxguard.source.ptxsyntax import Directive, Label, Scope, render


def squeezed(text):
    """PTX without comments and without space outside strings: what any printing must keep."""
    pieces = re.findall(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/|\s+|.', text, re.DOTALL)
    return "".join(piece for piece in pieces if not piece.startswith(("//", "/*")) and not piece.isspace())


def kinds(text):
    return [operand.kind for operand in parse_asm(text)[0].operands]


def test_wait_loop_of_a_template():
    text = (
        "{\n\t.reg .pred p; // done?\n\tLAB_%=:\n\t"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1, 0x989680;\n\t"
        "@p bra DONE_%=;\n\tbra LAB_%=;\n\tDONE_%=:\n\t}"
    )
    statements = parse_statements(text)
    assert [type(item).__name__ for item in statements] == [
        *("Scope", "Directive", "Label", "Instruction", "Instruction", "Instruction", "Label", "Scope")
    ]
    assert statements[1] == Directive((".reg", ".pred", "p"), ";", 3, 16)
    assert statements[2] == Label("LAB_%=", text.index("LAB"), text.index("LAB") + 7)
    assert statements[-1] == Scope("}", len(text) - 1, len(text))
    wait, jump, _ = parse_asm(text)
    assert wait.opcode == "mbarrier.try_wait.parity.shared::cta.b64"
    assert [operand.kind for operand in wait.operands] == ["register", "address", "placeholder", "immediate"]
    assert (jump.predicate, jump.opcode, jump.operands[0].text) == ("@p", "bra", "DONE_%=")


def test_offsets_are_those_of_the_text():
    text = "@!p  cp.async.bulk.tensor.2d\n  .shared::cluster /* x; */ .global [%0 + 8], [%1, {%2, %3}] ; ret"
    copy, last = parse_asm(text)
    assert copy.opcode == "cp.async.bulk.tensor.2d.shared::cluster.global"
    assert copy.predicate == "@!p"
    assert text[copy.start :].startswith("cp.async")
    assert text[: copy.mnemonic_end].endswith(".global")
    assert text[: copy.end].endswith(";")
    for operand in (*copy.operands, *copy.operands[0].children, *copy.operands[1].children):
        assert text[operand.start : operand.end] == operand.text
    assert [child.text for child in copy.operands[0].children] == ["%0", "8"]
    assert [child.kind for child in copy.operands[1].children] == ["placeholder", "vector"]
    assert (last.opcode, last.end) == ("ret", len(text))


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (
            "immediate",
            ["0", "17U", "0x1fU", "0b101U", "017", "0f3F800000", "0d3FF0000000000000", "1.5", "1e-3"],
        ),
        ("immediate", ["-1", "(1 << 4) | 3", "~0", "-(2+3)", "1 ? 2 : 3", "7 % 2"]),
        ("placeholder", ["%0", "%[dst]", "%=", "$0", "${0:x}", "${12}"]),
        ("register", ["%r1", "%%r1", "%tid.x", "%clock64"]),
        ("address", ["[r+16]", "[r - 8]", "[a, {x, y}]", "[p].unified"]),
        ("vector", ["{a, _, 1}", "{}"]),
        ("symbol", ["$L__BB0_1", "$$L1", "_Z3fooPf"]),
        ("other", ["p|q", "table[3]", "(a, b)", "buf+4", "(.s64) x"]),
        ("sink", ["_"]),
        ("negated", ["!q", "!%0"]),
    ],
)
def test_kinds_of_operands(kind, texts):
    for text in texts:
        assert kinds(f"op.b32 d, {text};")[1:] == [kind], text


def test_declared_names_are_registers():
    text = ".reg .b32 r<3>, x; .reg .pred p; op r0, r2, r3, x, y, p;"
    assert kinds(text) == ["register", "register", "symbol", "register", "symbol", "register"]


def test_offset_of_an_address_carries_its_sign():
    for text, offset in (("[r+16]", "16"), ("[r - 8]", "- 8"), ("[r + -8]", "-8"), ("[r+4*2]", "4*2")):
        address = parse_asm(f"ld.b32 d, {text};")[0].operands[1]
        assert [child.text for child in address.children] == ["r", offset]


def test_unknown_words_are_data():
    bad = "_mma.block_scale.scale_vec::4X.m16n8k64.row.col {c,c}, {a,a}, {0,0};"
    assert parse_asm(bad)[0].opcode == "_mma.block_scale.scale_vec::4X.m16n8k64.row.col"
    assert parse_asm("ld.%1.s32 %0, [%2];")[0].opcode == "ld.%1.s32"


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";;",
        "// nothing",
        "{",
        "} }",
        "call (r), f, (a, b), proto;",
        "call.uni _, f, ();",
        ".reg .b32 r<;",
        f".reg .b32 r<{'9' * 5000}>; mov.b32 r{'1' * 5000}, {'1' * 5000};",
        "proto: .callprototype (.param .b32 _) _ (.param .b64 _);",
        '.pragma "nounroll";',
        '.loc 1 20 3, function_name $L__info0, inlined_at 1 2 3\nmov.b32 a, b;.file 1 "a;b.cu"',
        ".shared .align 16 .b8 buf[1024]; .global .u32 t[2] = {1, {2}}; .const .f32 x = 0f00000000;",
        ".func (.reg .b32 r) f (.reg .b32 a) { mov.b32 r, a; ret; }",
        "setp.ne.and.s32 p|q, %r1, -1, !r; @!q trap; @%p1 exit; @%0 bra.uni L;",
        "tex.2d.v4.f32.f32 {a, b, c, d}, [tex, {x, y}];",
    ],
)
def test_accepted(text):
    assert squeezed(render(parse_statements(text))).rstrip(";") == squeezed(text).strip(";")


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("mov.b32 %0, @;", 12),
        ("mov.b32 %0 %1;", 11),
        ("ld.b32 %0, [%1;", 14),
        ("mov.b32 a, b; this is text", 22),
        ("mov.b32 a, 0x12G;", 11),
        ("mov.b32 a,", 10),
        ("hello, world", 5),
        ("\n\n  ?", 4),
        ('mov.b32 a, "x";', 11),
    ],
)
def test_refused_with_its_place(text, offset):
    with pytest.raises(ParseError) as caught:
        parse_asm(text)
    assert caught.value.offset == offset


NAMES = st.one_of(
    st.sampled_from(
        ["%0", "%12", "%[in]", "%r3", "%%r3", "p", "_", "$L__1", "LAB_%=", "$0", "%tid.x", "smem"]
    ),
    st.text(string.ascii_lowercase, min_size=1, max_size=5),
)
NUMBERS = st.one_of(
    st.integers(-9, 1 << 40).map(str), st.sampled_from(["0x1F", "0f3F800000", "1.5e3", "07", "0b1U"])
)
SPACES = st.sampled_from(["", " ", "\n\t", " // c;\n", "/* ; } */"])


@st.composite
def operands(draw, depth=2):
    simple = st.one_of(NAMES, NUMBERS)
    if depth == 0:
        return draw(simple)
    inner = operands(depth - 1)
    shape = draw(st.sampled_from("atomic address offset map vector group pair negated".split()))
    if shape == "atomic":
        return draw(simple)
    if shape == "address":
        return f"[{draw(SPACES)}{draw(NAMES)}]"
    if shape == "offset":
        return f"[{draw(NAMES)} {draw(st.sampled_from('+-'))} {draw(st.integers(0, 99))}]"
    if shape == "map":
        return f"[{draw(NAMES)},{draw(SPACES)}{{{draw(inner)}, {draw(inner)}}}]"
    if shape in {"vector", "group"}:
        parts = ", ".join(draw(st.lists(inner, min_size=1, max_size=3)))
        return f"{{{parts}}}" if shape == "vector" else f"({parts})"
    return f"{draw(NAMES)}|{draw(NAMES)}" if shape == "pair" else f"!{draw(NAMES)}"


@st.composite
def statements(draw):
    shape = draw(st.integers(0, 9))
    if shape == 0:
        return draw(st.sampled_from(["{", "}", "DONE_%=:", "$L__BB0_1 :", '.pragma "a;b";', ".loc 1 2 3"]))
    if shape == 1:
        return f".reg .b{draw(st.sampled_from([8, 32]))} {draw(st.sampled_from(['a, b', 'r<4>', '%p<9>']))};"
    guard = draw(st.sampled_from(["", "@p ", "@!%0 ", "@ ! %%q "]))
    words = draw(
        st.lists(st.sampled_from([".b32", ".shared::cta", ".2d", ".L2::128B", ".odd_word"]), max_size=4)
    )
    opcode = draw(st.sampled_from(["mov", "cp", "mbarrier", "x"])) + draw(SPACES).join(["", *words])
    return f"{guard}{opcode} {', '.join(draw(st.lists(operands(), max_size=4)))}{draw(SPACES)};"


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(statements(), SPACES), max_size=6))
def test_printing_gives_the_same_tokens(pieces):
    text = "\n".join(statement + space for statement, space in pieces)
    parsed = parse_statements(text)
    printed = render(parsed)
    assert squeezed(printed) == squeezed(text)
    again = parse_statements(printed)
    assert render(again) == printed
    shapes = [(item.opcode, item.predicate, [o.text for o in item.operands]) for item in parse_asm(text)]
    assert shapes == [
        (item.opcode, item.predicate, [o.text for o in item.operands]) for item in parse_asm(printed)
    ]


def refusal(text):
    try:
        parse_asm(text)
    except ParseError as error:
        return error
    return None


@settings(max_examples=200, deadline=None)
@given(st.text(string.printable, max_size=60))
def test_any_text_is_read_or_refused_with_an_offset(text):
    error = refusal(text)
    assert error is None or 0 <= error.offset <= len(text)


@pytest.fixture
def grammar(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "tiny.lark"
    path.write_text('start: "a" -> found\n')
    return path


class Found:
    def found(self, items):
        return "found"


def cached(tmp_path):
    return list((tmp_path / "cache" / "ptxguard").iterdir())


def test_tables_are_kept_for_their_owner_only(grammar, tmp_path, monkeypatch):
    assert ptxtables.load_parser(grammar, Found()).parse("a") == "found"
    (file,) = cached(tmp_path)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(ptxtables, "_build_tables", lambda grammar: pytest.fail("built again"))
    assert ptxtables.load_parser(grammar, Found()).parse("a") == "found"


@pytest.mark.parametrize("damage", ["cut", "foreign", "empty", "link"])
def test_a_damaged_or_foreign_cache_file_is_not_used(grammar, tmp_path, damage):
    ptxtables.load_parser(grammar, Found())
    (file,) = cached(tmp_path)
    content = file.read_bytes()
    if damage == "foreign":
        file.chmod(0o666)
    elif damage == "link":
        file.rename(tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "elsewhere")
    else:
        file.write_bytes(content[: len(content) // 2] if damage == "cut" else b"")
    assert ptxtables._read_tables(file) is None
    assert ptxtables.load_parser(grammar, Found()).parse("a") == "found"
    assert ptxtables._read_tables(file) is not None


def test_an_unwritable_cache_is_no_error(grammar, tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert ptxtables.load_parser(grammar, Found()).parse("a") == "found"


def test_a_relative_cache_folder_is_not_used(grammar, monkeypatch):
    # XDG Base Directory specification: relative paths are invalid and ignored.
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    assert ptxtables.cache_folder() is None
    assert ptxtables.load_parser(grammar, Found()).parse("a") == "found"
