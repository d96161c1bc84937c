"""Asm statements in C++: found in every spelling, joined from pieces, taken apart, placed exactly."""

from __future__ import annotations

import pytest

from ptxguard.location import SourceFile
from ptxguard.source.guards import CppFile
from ptxguard.source.lexer import MAX_VARIANTS, AsmStatement, Malformed, find_statements
from ptxguard.source.literals import join, literal_pieces
from sourcekit import CLUSTER, copy, graph_of, look


def statements(folder, text, **files) -> list[AsmStatement | Malformed]:
    """Statements of `a.cu`."""
    kit = graph_of(folder, {"a.cu": text, **{name.replace("_", "."): body for name, body in files.items()}})
    return list(find_statements(kit.unit(), kit.project.resolver, kit.project.asm_keywords))


def templates(folder, text, **files) -> list[str]:
    return [statement.template.text for statement in statements(folder, text, **files)]


# Literals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (r'"a\nb\tc"', "a\nb\tc"),
        (r'"\\ \" \' \?"', "\\ \" ' ?"),
        (r'"\x41\x42"', "AB"),
        (r'"\101\60\0"', "A0\0"),
        (r'"\u00e4\U0001F600"', "ä😀"),
        ('"a\\\nb"', "ab"),
        ('"a\\\r\nb"', "ab"),
        (r'R"(a\nb)"', r"a\nb"),
        ('R"x(a)")x"', 'a)"'),
        ('u8"a"', "a"),
        ('LR"(a)"', "a"),
        ('""', ""),
        ('R"()"', ""),
        (r'"%%r %0 \x7b"', "%%r %0 {"),
        (r'"\xFFFFFFFFFFFF"', "\U0010ffff"),
    ],
)
def test_a_literal_stands_for(token, text):
    file = SourceFile("a.cu", "  " + token)
    joined = join(literal_pieces(token, file, 2))
    assert joined.text == text
    for position, char in enumerate(text):
        where, offset = joined.locate(position)
        assert where is file
        assert file.text[offset] in (char, "\\")  # itself, or the escape that stands for it


# Spellings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        'asm("nop;");',
        'asm ("nop;") ;',
        '__asm__("nop;");',
        '__asm("nop;");',
        'asm volatile("nop;");',
        '__asm__ __volatile__ ("nop;");',
        'asm __volatile("nop;");',
        'asm\n  volatile\n  (\n  "nop;"\n  )\n;',
        'asm /* why */ volatile // because\n("nop;");',
        'asm volatile inline("nop;");',
        'asm("no" "p;");',
        'asm("no"\n  // between\n  "p" /* and */ ";");',
        'asm(R"(nop;)");',
        'asm(R"x(nop)x" ";");',
        'asm("n\\x6fp;");',
        'asm("no\\\np;");',
        'asm(("nop;"));',
        'asm("nop;" ::: "memory");',
        'asm("nop;" : : : "memory");',
        'asm("nop;" :);',
        '#define KEYWORD asm\nvoid f() { KEYWORD("nop;"); }',
        '#define KEYWORD __asm__ __volatile__\nvoid f() { KEYWORD("nop;"); }',
        '#define VOLATILE volatile\nvoid f() { asm VOLATILE("nop;"); }',
        '#define TEXT "nop;"\nvoid f() { asm(TEXT); }',
        '#define END ";"\nvoid f() { asm("nop" END); }',
        '#define END ";"\nvoid f() { asm("nop"END); }',
        '#define NO "no"\nvoid f() { asm(NO"p;"); }',
        '#define TEXT(x) #x ";"\nvoid f() { asm(TEXT(nop)); }',
        '#define INNER(x) #x\n#define TEXT(x) INNER(x)\nvoid f() { asm(TEXT(nop;)); }',
        '#define A B\n#define B "nop;"\nvoid f() { asm(A); }',
        '#define TEXT \\\n  "no" \\\n  "p;"\nvoid f() { asm(TEXT); }',
        '#define TEXT(...) #__VA_ARGS__\nvoid f() { asm(TEXT(nop;)); }',
    ],
)  # fmt: skip
def test_every_spelling_is_found(tmp_path, text):
    assert templates(tmp_path, text) == ["nop;"]


@pytest.mark.parametrize(
    "text",
    [
        '// asm("nop;");',
        '/* asm("nop;"); */',
        'const char *s = "asm(\\"nop;\\");";',
        "int asm_count = 0; asm_count(1);",
        "int my_asm(const char *); my_asm_2(1); f.asm_();",
        "#define ASM_NOTE asm\n",
        "#error asm(x)\n",
        "register int x asm; f(x);",
        "asm();",
    ],
)
def test_what_is_no_statement(tmp_path, text):
    assert statements(tmp_path, text) == []


def test_a_register_name_is_read_but_is_no_ptx(tmp_path):
    assert templates(tmp_path, 'register int x asm("r10"); int f(void) asm("other");') == ["r10", "other"]


# Places --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        pytest.param('  asm("cp.async", "x");', 1, 8, id="in the literal"),
        pytest.param('asm(\n\n   "cp.async");', 3, 5, id="on a later line"),
        pytest.param('/* ä */ asm("cp.async");', 1, 14, id="code points, not bytes"),
        pytest.param('\tasm("cp.async");', 1, 7, id="a tab is one column"),
        pytest.param('asm("{\\n" "\\t cp.async");', 1, 15, id="behind escapes"),
        pytest.param('asm(R"(\n  {\n    cp.async)");', 3, 5, id="in a raw string"),
        pytest.param('asm(R"(\r\n  {\r\n    cp.async)");', 3, 5, id="in a raw string with CRLF"),
        pytest.param('asm("a;\\\n  cp.async");', 2, 3, id="behind a splice"),
        pytest.param('asm("c" "p.asy" "nc");', 1, 6, id="cut in three"),
    ],
)
def test_the_place_of_the_mnemonic(tmp_path, text, line, column):
    (statement,) = statements(tmp_path, text)
    file, offset = statement.template.locate(statement.template.text.index("cp.async"))
    assert file.position(offset) == (line, column)


def test_the_place_in_the_header_of_the_macro(tmp_path):
    header = '// a macro\n#define LOAD(w) \\\n  "cp.async." w\n'
    (statement,) = statements(tmp_path, '#include "a.h"\nvoid f() { asm(LOAD("bulk")); }', a_h=header)
    assert statement.template.text == "cp.async.bulk"
    file, offset = statement.template.locate(0)
    assert (file.path, *file.position(offset)) == ("a.h", 3, 4)
    file, offset = statement.template.locate(statement.template.text.index("bulk"))
    assert (file.path, *file.position(offset)) == ("a.cu", 2, 22)


# Variants ------------------------------------------------------------------------------------------


def test_if_inside_a_statement(tmp_path):
    text = """void f() {
  asm("a;"
#if X
      "b;" :: "r"(1)
#elif Y
      "c;"
#else
      "d;"
#endif
  );
}
"""
    assert sorted(templates(tmp_path, text)) == ["a;b;", "a;c;", "a;d;"]
    by_text = {s.template.text: s for s in statements(tmp_path, text)}
    assert [o.constraint for o in by_text["a;b;"].operands] == ["r"]
    assert by_text["a;d;"].operands == ()
    shown = {text: [(g.text, wanted) for g, wanted in s.conditions] for text, s in by_text.items()}
    assert shown["a;b;"] == [("#if X", True)]
    assert shown["a;c;"] == [("#elif Y", True)]
    assert shown["a;d;"] == [("#else", True)]


def test_if_without_else_inside_a_statement(tmp_path):
    text = 'void f() {\n  asm("a;"\n#ifdef X\n "b;"\n#endif\n );\n}\n'
    found = {s.template.text: [(g.text, w) for g, w in s.conditions] for s in statements(tmp_path, text)}
    assert found == {"a;b;": [("#ifdef X", True)], "a;": [("#ifdef X", False)]}


def test_two_ifs_inside_a_statement_multiply(tmp_path):
    text = 'void f() {\n asm(\n#ifdef X\n"a"\n#else\n"b"\n#endif\n#ifdef Y\n"c"\n#endif\n);\n}\n'
    assert sorted(templates(tmp_path, text)) == ["a", "ac", "b", "bc"]


def test_a_macro_with_two_values(tmp_path):
    text = '#ifdef X\n#define D "a"\n#else\n#define D "b"\n#endif\nvoid f() { asm("x." D ";"); }\n'
    assert sorted(templates(tmp_path, text)) == ["x.a;", "x.b;"]


@pytest.mark.parametrize(
    ("definitions", "text"),
    [
        pytest.param('#define D "a"\n#define D "b"\n', "b", id="the last definition"),
        pytest.param('#define D "a"\n#undef D\n#define D "b"\n', "b", id="defined anew"),
    ],
)
def test_a_macro_with_one_value_in_force(tmp_path, definitions, text):
    assert templates(tmp_path, definitions + 'void f() { asm(D); }\n#undef D\n#define D "later"\n') == [text]


def test_too_many_variants_are_an_error_with_a_place(tmp_path):
    branches = "".join(f'#ifdef X{i}\n"a{i}"\n#endif\n' for i in range(7))
    found = look(tmp_path, f'__device__ void f() {{\n  asm("x;"\n{branches});\n}}\n')
    assert found.messages == [f"a.cu:2:3: asm statement with more than {MAX_VARIANTS} preprocessor variants"]
    assert MAX_VARIANTS < 2**7


def test_an_unknown_macro_is_an_error_with_its_name(tmp_path):
    text = copy().replace("shared::cluster", '" WINDOW "').replace("asm", "\nasm")
    found = look(tmp_path, f"__device__ void f(unsigned dst, void *src, unsigned bar) {{{text}}}\n")
    assert found.messages == [
        "a.cu:2: asm text depends on WINDOW, which has no value in this tree; add its header or use -D"
    ]
    given = look(tmp_path, {"w.h": '#define WINDOW "shared::cta"\n'})
    assert given.messages == found.messages  # nobody includes that header
    text = f'#include "w.h"\n__device__ void f(unsigned dst, void *src, unsigned bar) {{{text}}}\n'
    assert look(tmp_path, text).only.copy.destination_space == "shared::cta"


# Operands ------------------------------------------------------------------------------------------


def operands(folder, text) -> list[tuple[str | None, str, str, bool]]:
    """(name, constraint, expression, output) of the one statement."""
    (statement,) = statements(folder, text)
    return [
        (o.name, o.constraint, " ".join(o.tokens.texts[i] for i in o.indices), o.output)
        for o in statement.operands
    ]


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        pytest.param(':: "r"(x)', [(None, "r", "x", False)], id="input"),
        pytest.param(': "=r"(x)', [(None, "=r", "x", True)], id="output"),
        pytest.param(': "+r"(x), "=l"(y) : "n"(3)',
                     [(None, "+r", "x", True), (None, "=l", "y", True), (None, "n", "3", False)], id="both"),
        pytest.param(': : [dst] "r"(x), [src]"l"(y)',
                     [("dst", "r", "x", False), ("src", "l", "y", False)], id="named"),
        pytest.param(':: "r"(f(a, g<b, c>(d)), e)', [(None, "r", "f ( a , g < b , c > ( d ) ) , e", False)],
                     id="nested parentheses and templates"),
        pytest.param(':: "r"(a[i, j]), "r"(k)', [(None, "r", "a [ i , j ]", False), (None, "r", "k", False)],
                     id="brackets"),
        pytest.param(':: "r"(p ? q : r), "r"(A::b)',
                     [(None, "r", "p ? q : r", False), (None, "r", "A :: b", False)], id="colons"),
        pytest.param(':: "r"([&](int i) { return i, 1; }(2)), "l"(z)',
                     [(None, "r", "[ & ] ( int i ) { return i , 1 ; } ( 2 )", False), (None, "l", "z", False)],
                     id="lambda"),
        pytest.param(':: "r"((uint32_t)(x)), "l"((T*)p)',
                     [(None, "r", "( uint32_t ) ( x )", False), (None, "l", "( T * ) p", False)], id="casts"),
        pytest.param(':: "r"("text"[0] == \')\')', [(None, "r", "\"text\" [ 0 ] == ')'", False)], id="literals"),
        pytest.param(':: "r" (x) : "memory", "cc"', [(None, "r", "x", False)], id="clobbers are no operands"),
        pytest.param("", [], id="none"),
    ],
)  # fmt: skip
def test_operands(tmp_path, lists, expected):
    assert operands(tmp_path, f'void f() {{ asm volatile("x;" {lists}); }}') == expected


def test_a_constraint_from_a_macro(tmp_path):
    text = '#define PTR "l"\nvoid f(void *p) { asm("x;" :: PTR(p)); }'
    assert operands(tmp_path, text) == [(None, "l", "p", False)]


@pytest.mark.parametrize(("word", "volatile"), [("volatile", True), ("__volatile__", True), ("", False)])
def test_volatile(tmp_path, word, volatile):
    (statement,) = statements(tmp_path, f'void f() {{ asm {word}("x;"); }}')
    assert statement.volatile is volatile


# Macro bodies and code in strings ------------------------------------------------------------------


def test_a_statement_in_a_macro_takes_its_text_from_every_use(tmp_path):
    text = """#define COPY(space, n) \\
  asm volatile("cp." space "." #n ";" :: "r"(n))
void f() { COPY("cta", 1); COPY("cluster", 2); }
"""
    found = statements(tmp_path, text)
    assert sorted(s.template.text for s in found) == ["cp.cluster.2;", "cp.cta.1;"]
    assert {s.owner.name for s in found} == {"COPY"}
    assert {s.line for s in found} == {2}


def test_code_in_a_raw_string_is_code_at_its_own_place(tmp_path):
    inner = f"__global__ void k(unsigned dst, void *src, unsigned bar) {{\n    {copy()}\n}}"
    text = f'const char *source = R"cuda(\n{inner}\n)cuda";\n'
    site = look(tmp_path, {"gen.cpp": text}).only
    assert (site.span.path, site.span.line, site.function) == ("gen.cpp", 3, "k")
    assert text.splitlines()[2][site.span.column - 1 :].startswith(CLUSTER)


def test_code_in_a_plain_string_is_a_message(tmp_path):
    text = f'const char *help = "use {CLUSTER} [%0], [%1], 16, [%2];";\nint asm_help;\n'
    found = look(tmp_path, text)
    assert (found.sites, found.errors) == ((), ())


# What cannot be taken apart --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param('void f() {\n  asm("x;" : "=r"(y);\n}\n', "a.cu:2:3: asm statement without a closing",
                     id="no closing parenthesis"),
        pytest.param('void f() { asm("x;\n); }\n', 'a.cu:1:16: string literal never ends', id="string"),
        pytest.param('void f() { asm(R"(x;\n); }\n', "a.cu:1:16: raw string never ends", id="raw string"),
        pytest.param('void f() { asm("x;"); }\n  /* the end', "a.cu:2:3: comment never ends", id="comment"),
    ],
)  # fmt: skip
def test_malformed_text_is_an_error_at_its_place(tmp_path, text, message):
    messages = look(tmp_path, text).messages
    assert any(found.startswith(message) for found in messages)


@pytest.mark.parametrize("text", ["#if 0\n it's \"dead\n/* text\n*/\n#endif\n", '#if 0\n R"(\n#endif\n'])
def test_dead_text_may_be_anything(tmp_path, text):
    assert look(tmp_path, text + "void f() { }\n").errors == ()


def test_text_that_is_no_ptx_is_an_error_in_the_cu_file(tmp_path):
    text = f'__device__ void f() {{\n  asm("{CLUSTER} [%0], [%1] 16 [%2];"\n  );\n}}\n'
    (message,) = look(tmp_path, text).messages
    assert message.startswith("a.cu:2:")
    assert "asm text is no PTX" in message


def test_statements_are_found_without_a_clean_parse():
    text = 'template<<< ]] } } class ( asm("nop;") #if\n{{{ asm("exit;"); '
    unit = CppFile(SourceFile("a.cu", text))

    class Nothing:
        def resolve(self, tokens, indices, unit, owner):
            from ptxguard.source.pieces import Alternative

            pieces = [
                p for i in indices for p in literal_pieces(tokens.texts[i], unit.file, tokens.starts[i])
            ]
            return [Alternative(pieces)]

        def is_qualifier(self, word):
            return False

    assert [s.template.text for s in find_statements(unit, Nothing())] == ["nop;", "exit;"]
