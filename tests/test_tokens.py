"""Tokens of C++: literals, comments and directives as the C++ standard (lex) tells them apart."""

from __future__ import annotations

import pytest

from ptxguard.source import tokens as tk
from ptxguard.source.tokens import directive_name, plain_directive, skeleton, statement_tokens, tokenize

NAMES = {
    tk.IDENT: "ident", tk.NUMBER: "number", tk.STRING: "string", tk.RAW: "raw", tk.CHAR: "char",
    tk.PUNCT: "punct", tk.DIRECTIVE: "directive", tk.BAD: "bad",
}  # fmt: skip


def kinds(text: str) -> list[str]:
    found = tokenize(text)
    return [f"{NAMES[kind]} {token}" for kind, token in zip(found.kinds, found.texts, strict=True)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('"a" "b"', ['string "a"', 'string "b"'], id="adjacent strings"),
        pytest.param(r'"a\"b"', [r'string "a\"b"'], id="escaped quote"),
        pytest.param(r'"a\\" x', [r'string "a\\"', "ident x"], id="escaped backslash ends nothing"),
        pytest.param('"a\\\nb" c', ['string "a\\\nb"', "ident c"], id="string spliced over lines"),
        pytest.param('"a\\\r\nb" c', ['string "a\\\r\nb"', "ident c"], id="string spliced with CRLF"),
        pytest.param('"//" x', ['string "//"', "ident x"], id="comment sign in a string"),
        pytest.param('"/*" x "*/"', ['string "/*"', "ident x", 'string "*/"'], id="block comment signs"),
        pytest.param('u8"a" L"b" U"c" u"d"', ['string u8"a"', 'string L"b"', 'string U"c"', 'string u"d"'],
                     id="string prefixes"),
        pytest.param("Lx ux u8x Rx", ["ident Lx", "ident ux", "ident u8x", "ident Rx"], id="prefix letters"),
        pytest.param('R"(a"b)" x', ['raw R"(a"b)"', "ident x"], id="raw string with a quote"),
        pytest.param('R"x()" )y" )x" y', ['raw R"x()" )y" )x"', "ident y"], id="raw string with a delimiter"),
        pytest.param('u8R"(a)" LR"(b)"', ['raw u8R"(a)"', 'raw LR"(b)"'], id="raw string prefixes"),
        pytest.param('DIR"(a" x', ["ident DIR", 'string "(a"', "ident x"], id="a name before a string"),
        pytest.param('R"(a\n#if 0\n)" x', ['raw R"(a\n#if 0\n)"', "ident x"], id="directive in a raw string"),
        pytest.param(r"'\'' '\"' '\\'", [r"char '\''", r"char '\"'", r"char '\\'"], id="characters"),
        pytest.param("'\"' x", ["char '\"'", "ident x"], id="quote as a character"),
        pytest.param("1'000'000 0x1'F", ["number 1'000'000", "number 0x1'F"], id="digit separators"),
        pytest.param("1e+5 0x1p-3 .5f 1.f", ["number 1e+5", "number 0x1p-3", "number .5f", "number 1.f"],
                     id="exponents"),
        pytest.param("a // b\nc", ["ident a", "ident c"], id="line comment"),
        pytest.param("a // b \\\n c\nd", ["ident a", "ident d"], id="line comment goes on behind a splice"),
        pytest.param("a /* b\n * c **/ d", ["ident a", "ident d"], id="block comment"),
        pytest.param("a /*/ b */ c", ["ident a", "ident c"], id="block comment that only seems to end"),
        pytest.param("a/**/b", ["ident a", "ident b"], id="empty comment parts tokens"),
        pytest.param("k<<<1, 2>>>", ["ident k", "punct <<<", "number 1", "punct ,", "number 2",
                                     "punct >", "punct >", "punct >"], id="launch"),
        pytest.param("A<B<int>>", ["ident A", "punct <", "ident B", "punct <", "ident int", "punct >",
                                   "punct >"], id="two closing angles"),
        pytest.param("a::b->c", ["ident a", "punct ::", "ident b", "punct ->", "ident c"], id="scope, arrow"),
        pytest.param("größe = 1", ["ident größe", "punct =", "number 1"], id="letters beyond ASCII"),
        pytest.param("# define A 1\nb", ["directive # define A 1", "ident b"], id="directive"),
        pytest.param("  #if A \\\n && B\nc", ["directive   #if A \\\n && B", "ident c"], id="spliced directive"),
        pytest.param("a # b", ["ident a", "punct #", "ident b"], id="hash inside a line is no directive"),
        pytest.param('#define A "x" // c\nb', ['directive #define A "x" // c', "ident b"], id="its comment"),
        pytest.param("#define A /* x\ny */ 1\nb", ["directive #define A /* x\ny */ 1", "ident b"],
                     id="a comment keeps a directive open over lines"),
        pytest.param("#error don't\nb", ["directive #error don't", "ident b"], id="apostrophe in a directive"),
    ],
)  # fmt: skip
def test_kinds(text, expected):
    assert kinds(text) == expected


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        pytest.param('x = "abc\ny', '"', id="string"),
        pytest.param("x /* abc\ny", "/*", id="comment"),
        pytest.param('x R"(abc\n) z', 'R"', id="raw string"),
        pytest.param('x "abc\\', '"', id="string that ends in a splice"),
    ],
)
def test_what_never_ends_is_bad_and_the_rest_is_still_read(text, bad):
    found = tokenize(text)
    assert [t for k, t in zip(found.kinds, found.texts, strict=True) if k == tk.BAD] == [bad]
    assert found.texts[0] == "x"
    assert [(text[a:b]) for kind, a, b in skeleton(text) if kind == tk.BAD] == [bad]


@pytest.mark.parametrize(
    "text",
    [
        'a "s" R"(raw)" // c\n#if X // "\n\'"\' /* " */ b\n#endif\n',
        'u8"x" LR"d(y)d" 1\'000 \'\\\'\' "\\"" // \\\n "still comment\n"z"',
        '#define S "a" /* " */\n"b"',
        "L'\"' u8'\"' u'x' 0xA'B \"s\"",
        'DIR"(a" ADDR".x" u8R"(")" LR"(b)"',
    ],
)
def test_the_skeleton_marks_what_the_tokens_mark(text):
    found = tokenize(text)
    literals = (tk.STRING, tk.RAW, tk.CHAR, tk.DIRECTIVE, tk.BAD)
    marked = [(kind, found.end(i)) for i, kind in enumerate(found.kinds) if kind in literals]
    assert [(kind, end) for kind, _, end in skeleton(text) if kind in literals] == marked


def test_offsets_point_at_the_tokens():
    text = 'int x = 1; /* c */ "ä" y;'
    found = tokenize(text)
    assert all(text.startswith(t, s) for t, s in zip(found.texts, found.starts, strict=True))
    assert found.at(text.index("y")) == found.texts.index("y")
    assert found.source(0, 4) == "int x = 1"
    assert found.source(2, 2) == ""


def partner(text: str, index: int) -> str | None:
    """Text from a bracket (by its place among all brackets) to its partner."""
    found = tokenize(text)
    brackets = [i for i, token in enumerate(found.texts) if token in "()[]{}"]
    other = found.match.get(brackets[index])
    return None if other is None else found.source(brackets[index], other + 1)


@pytest.mark.parametrize(
    ("text", "index", "expected"),
    [
        pytest.param("f(a[1], {b}) c", 0, "(a[1], {b})", id="nested"),
        pytest.param(
            "#if A\nf(1,\n#else\ng(2,\n#endif\n3);", 0, "(1, #else g(2, #endif 3)", id="first branch"
        ),
        pytest.param("#if 0\nf(1,\n#else\ng(2,\n#endif\n3);", 1, "(2, #endif 3)", id="but not of #if 0"),
        pytest.param("{ f(1; } g()", 0, "{ f(1; }", id="a missing parenthesis stays local"),
        pytest.param("f(1 g", 0, None, id="never closed"),
    ],
)
def test_brackets(text, index, expected):
    assert partner(text, index) == expected


@pytest.mark.parametrize(
    ("text", "end"),
    [
        pytest.param('asm("a" : "=r"(x)); y', '"=r"(x))', id="nested parentheses"),
        pytest.param('asm(")" "(" ")"); y', '")")', id="parentheses in strings"),
        pytest.param('asm("a" /* ) */ ); y', "/* ) */ )", id="parenthesis in a comment"),
        pytest.param('asm(\n#if A\n"a"\n#else\n"b"\n#endif\n); y', "#endif\n)", id="#if inside"),
        pytest.param('asm(\n#if A\n"a");\n#else\n"b");\n#endif\n y', "#endif", id="closed in every branch"),
    ],
)
def test_a_statement_ends_at_its_parenthesis(text, end):
    found = statement_tokens(text, 0)
    assert found is not None
    assert text[: found.end(len(found) - 1)].endswith(end)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('asm("a" : "=r"(x);', id="end of text"),
        pytest.param("asm; f(x);", id="ends before it opens"),
        pytest.param('#if A\nasm("a"\n#endif\n', id="the branch around it ends"),
    ],
)
def test_a_statement_that_never_closes(text):
    assert statement_tokens(text, text.index("asm")) is None


def test_a_statement_is_given_up_after_a_limit():
    assert statement_tokens("asm(" + "x " * 50 + ")", 0, limit=40) is None
    assert statement_tokens("asm(" + "x " * 50 + ")", 0, limit=60) is not None


@pytest.mark.parametrize(
    ("text", "name", "plain"),
    [
        ("#if A", "if", "#if A"),
        ("  #  ifdef  A", "ifdef", "#  ifdef  A"),
        ("#\tif\tA", "if", "#\tif\tA"),
        ("#", "", "#"),
        ("# 12", "12", "# 12"),
        ("#if A \\\n  && B", "if", "#if A    && B"),
        ("#if A // note", "if", "#if A"),
        ("#if A /* n */ && B", "if", "#if A   && B"),
        ('#define U "http://x"', "define", '#define U "http://x"'),
        ("#/* c */if A", "if", "# if A"),
        ("#else // A", "else", "#else"),
    ],
)
def test_directives(text, name, plain):
    assert directive_name(text) == name
    assert plain_directive(text) == plain
