"""Functions of a CUDA file: names, scopes, templates, kernels and bodies, also where no parser gets through."""

from __future__ import annotations

import pytest

from ptxguard.location import SourceFile
from ptxguard.source.cuda import Structure, read_structure
from ptxguard.source.declarators import parameter_names
from ptxguard.source.guards import CppFile
from ptxguard.source.types import argument_fits, classify_type


def structure(text: str) -> Structure:
    return read_structure(CppFile(SourceFile("a.cu", text)))


def functions(text: str) -> list[str]:
    """Qualified names of definitions, kernels with a star."""
    return [f.qualified + "*" * f.is_kernel for f in structure(text).functions]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("void f() {}", ["f"], id="plain"),
        pytest.param("void f();", [], id="declaration"),
        pytest.param("static inline __device__ int f(int a) { return a; }", ["f"], id="specifiers"),
        pytest.param("__global__ void k() {}", ["k*"], id="kernel"),
        pytest.param('extern "C" __global__ void k() {}', ["k*"], id="extern C kernel"),
        pytest.param('extern "C" { __global__ void k() {} }', ["k*"], id="extern C block"),
        pytest.param("__global__ __launch_bounds__(N * 32, 1) void k(int a) {}", ["k*"], id="attribute before"),
        pytest.param("__global__ void __launch_bounds__(256) __cluster_dims__(2, 1, 1) k() {}", ["k*"],
                     id="attributes between"),
        pytest.param("void __global__ __maxnreg__(64) k() {}", ["k*"], id="type first"),
        pytest.param("__attribute__((noinline)) __device__ void f() {}", ["f"], id="GNU attribute"),
        pytest.param("[[nodiscard]] int f() { return 1; }", ["f"], id="C++ attribute"),
        pytest.param("__declspec(noinline) void f() {}", ["f"], id="declspec"),
        pytest.param("template <class T> void f(T t) {}", ["f"], id="template"),
        pytest.param("template <int N, bool B = (N > 2), class... T> void f() {}", ["f"],
                     id="comparison in a default"),
        pytest.param("template <template <class> class C> void f() {}", ["f"], id="template template"),
        pytest.param("template <> void f<2>() {}", ["f"], id="specialisation"),
        pytest.param("template void f<2>(int);", [], id="instantiation"),
        pytest.param("template <class T> requires (sizeof(T) > 2) void f() {}", ["f"], id="requires"),
        pytest.param("std::enable_if_t<(N > 1), int> f() { return 0; }", ["f"], id="templated type"),
        pytest.param("auto f(int a) -> decltype(g(a)) { return g(a); }", ["f"], id="trailing type"),
        pytest.param("const int *const *f() { return 0; }", ["f"], id="pointer type"),
        pytest.param("std::vector<std::pair<int, int>> f() { return {}; }", ["f"], id="nested templates"),
        pytest.param("unsigned f() noexcept(true) { return 1; }", ["f"], id="noexcept"),
        pytest.param("namespace a { namespace b::c { void f() {} } void g() {} }", ["a::b::c::f", "a::g"],
                     id="namespaces"),
        pytest.param("inline namespace v1 { void f() {} }", ["v1::f"], id="inline namespace"),
        pytest.param("namespace { void f() {} }", ["f"], id="anonymous namespace"),
        pytest.param("namespace __attribute__((visibility(\"default\"))) a { void f() {} }", ["a::f"],
                     id="namespace with an attribute"),
        pytest.param("struct S { void f() {} static int g() { return 1; } };", ["S::f", "S::g"], id="members"),
        pytest.param("class S final : public B<int> { public: void f() const override {} };", ["S::f"],
                     id="bases, access, qualifiers"),
        pytest.param("struct alignas(16) S { void f() {} };", ["S::f"], id="alignas"),
        pytest.param("struct __align__(16) S { void f() {} };", ["S::f"], id="__align__"),
        pytest.param("template <class T> struct S<T *> { void f() {} };", ["S::f"], id="partial specialisation"),
        pytest.param("struct S { struct T { void f() {} } t; void g() {} };", ["S::T::f", "S::g"], id="nested"),
        pytest.param("struct { void f() {} } x;", ["f"], id="anonymous class"),
        pytest.param("struct S *f(struct S *s) { return s; }", ["f"], id="elaborated types"),
        pytest.param("struct S f() { return {}; }", ["f"], id="class as a type"),
        pytest.param("void S::f() {} int a::S<T>::g() { return 1; }", ["S::f", "a::S::g"], id="out of class"),
        pytest.param("S::S(int a) : x(a), y{a} { } S::~S() {}", ["S::S", "S::~S"], id="constructor, destructor"),
        pytest.param("struct S { S() : a{1}, b{2} {} int a, b; };", ["S::S"], id="member initialisers"),
        pytest.param("struct S { int a{1}; int b = 2; int c[2] = {1, 2}; void f() {} };", ["S::f"],
                     id="initialised members"),
        pytest.param("struct S { int operator()(int a) const { return a; } };", ["S::operator()"], id="call"),
        pytest.param("struct S { bool operator==(S o) { return 1; } S &operator=(S o) { return *this; } };",
                     ["S::operator==", "S::operator="], id="operators"),
        pytest.param("struct S { operator float() const { return 1; } };", ["S::operatorfloat"], id="conversion"),
        pytest.param("struct S { int operator[](int i) { return i; } };", ["S::operator[]"], id="subscript"),
        pytest.param("enum class E : int { A, B }; void f() {}", ["f"], id="enumeration"),
        pytest.param("int x = 1; int y[2] = {1, 2}; auto z = [](int a) { return a; }; void f() {}", ["f"],
                     id="variables"),
        pytest.param("int x{1}; void f() {}", ["f"], id="braced variable"),
        pytest.param("typedef struct { int a; } S; using T = int; void f() {}", ["f"], id="types"),
        pytest.param("union U { int a; float b; }; void f() {}", ["f"], id="union"),
        pytest.param("void f() { if (a) { g(); } for (;;) {} struct L { void h() {} }; }", ["f"],
                     id="a body is passed over"),
        pytest.param("void f() try { } catch (...) { }", ["f"], id="function try block"),
        pytest.param("EXPORT_API void f() {} DEVICE_INLINE int g() { return 1; }", ["f", "g"], id="macros before"),
        pytest.param("PRAGMA(unroll) void f() {}", ["f"], id="call-like macro before"),
        pytest.param("MACRO(x, y)\nvoid f() {}", ["f"], id="macro without a semicolon"),
        pytest.param("MACRO(x);\nvoid f() {}", ["f"], id="macro with a semicolon"),
        pytest.param("void (*table[])(int) = {f, g}; void h() {}", ["h"], id="table of pointers"),
        pytest.param("void f(void (*g)(int), int (&a)[4]) {}", ["f"], id="function and array parameters"),
        pytest.param("void f(int a = g(1, 2), const char *s = \"{\") {}", ["f"], id="default arguments"),
        pytest.param("#ifdef X\nvoid f(int a) {\n#else\nvoid f(float a) {\n#endif\n}\nvoid g() {}", ["f", "g"],
                     id="two heads, one body"),
        pytest.param("#ifdef X\nvoid f() {}\n#else\nvoid f(int) {}\n#endif", ["f", "f"], id="two definitions"),
        pytest.param("void f() {\n#ifdef X\n if (a) {\n#else\n {\n#endif\n }\n}\nvoid g() {}", ["f", "g"],
                     id="#if across braces"),
        pytest.param("#if X\nnamespace a {\n#endif\nvoid f() {}\n#if X\n}\n#endif\nvoid g() {}", ["a::f", "g"],
                     id="#if around a namespace"),
        pytest.param("} void f() {}", ["f"], id="a stray brace"),
        pytest.param("void f( { } void g() {}", ["f", "g"], id="a broken head stays local"),
        pytest.param("void f() { g(1; } void h() {}", ["f", "h"], id="a broken body stays local"),
        pytest.param("void f() { asm(\"}\"); char c = '}'; /* } */ } void g() {}", ["f", "g"], id="literals"),
        pytest.param("static_assert(N > 2, \"x\"); void f() {}", ["f"], id="static_assert"),
        pytest.param("void f() { return; }; void g() {}", ["f", "g"], id="needless semicolon"),
        pytest.param("f() { }", ["f"], id="old style without a type"),
        pytest.param("concept C = requires(int a) { a; }; void f() {}", ["f"], id="concept"),
        pytest.param("friend void f() {}", ["f"], id="friend"),
        pytest.param("constexpr __host__ __device__ S(int a) : x(a) {}", ["S"], id="constructor alone"),
    ],
)  # fmt: skip
def test_definitions(text, expected):
    assert functions(text) == expected


def one(text: str):
    (function,) = structure(text).functions
    return function


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("void f() {}", []),
        ("void f(void) {}", []),
        ("void f(int a, float *b) {}", [("a", "int"), ("b", "float *")]),
        ("void f(int, float *) {}", [("", "int"), ("", "float *")]),
        ("void f(const __grid_constant__ CUtensorMap m) {}", [("m", "const __grid_constant__ CUtensorMap")]),
        ("void f(std::pair<int, int> p, int c) {}", [("p", "std :: pair < int , int >"), ("c", "int")]),
        ("void f(float (&a)[4][2], int n) {}", [("a", "float ( & ) [ 4 ] [ 2 ]"), ("n", "int")]),
        ("void f(void (*g)(int, int), int n) {}", [("g", "void ( * ) ( int , int )"), ("n", "int")]),
        ("void f(int a[], int b[2]) {}", [("a", "int [ ]"), ("b", "int [ 2 ]")]),
        ("template <class... T> void f(T &&... t) {}", [("t", "T &&")]),
        ("void f(unsigned long long a) {}", [("a", "unsigned long long")]),
        ("void f(int a\n#ifdef X\n, int b\n#endif\n) {}", [("a", "int"), ("b", "int")]),
        ("void f(T const &__restrict__ a) {}", [("a", "T const & __restrict__")]),
    ],
)
def test_parameters(text, parameters):
    assert [(p.name, p.type_text) for p in one(text).parameters] == parameters


@pytest.mark.parametrize(
    ("head", "accepted"),
    [
        ("f()", {0}),
        ("f(int a)", {1}),
        ("f(int a, int b = 1)", {1, 2}),
        ("f(int a, int b = 1, int c = 2)", {1, 2, 3}),
        ("f(int a, T... rest)", {1, 2, 3, 4, 5}),
    ],
)
def test_how_many_arguments_a_call_may_give(head, accepted):
    function = one(f"void {head} {{}}")
    assert {count for count in range(6) if function.accepts(count)} == accepted


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("template <class T, int N> void f() {}", ("T", "N")),
        ("template <class... T> void f() {}", ("T",)),
        ("template <int N = 2, class T = S<int, 3>> void f() {}", ("N", "T")),
        ("template <template <class> class C, auto V> void f() {}", ("C", "V")),
        ("template <void (*K)(int), decltype(&g) H> void f() {}", ("K", "H")),
        ("void f() {}", ()),
    ],
)
def test_template_parameters(text, names):
    assert one(text).template_names == names


def test_an_unnamed_template_parameter_keeps_its_place():
    assert parameter_names("class T , int , bool B".split())[::2] == ("T", "B")


def test_template_parameters_of_the_class_are_kept_apart():
    function = one("template <class T> struct S { template <int N> void f() {} };")
    assert (function.template_names, function.record_templates) == (("N",), ("T",))


@pytest.mark.parametrize(
    ("text", "specialised"),
    [
        ("template <> void f<2, float>() {}", ("2", "float")),
        ("template <> void f<S<1, 2>>() {}", ("S<1,2>",)),
        ("template <int N> void f() {}", None),
    ],
)
def test_specialisation(text, specialised):
    assert one(text).specialised == specialised


def test_flags():
    names = {
        f.name: (f.is_kernel, f.is_device, f.in_record)
        for f in structure("__global__ void k(){} __device__ void d(){} void h(){} void S::m(){}").functions
    }
    assert names == {
        "k": (True, True, False),
        "d": (False, True, False),
        "h": (False, False, False),
        "m": (False, False, True),
    }


def test_kernel_declarations_are_kept():
    found = structure(
        "__global__ void __cluster_dims__(2) k(int); void h(int); template <int N> __global__ void g();"
    )
    assert [f.name for f in found.declarations] == ["k", "g"]
    assert found.functions == []


def test_enclosing_function():
    text = "void f(int a = 1) { one; } int x = two; struct S { void g() { three; } int y = four; };"
    found = structure(text)
    tokens = found.functions[0].unit.tokens
    owners = {}
    for word in ("one", "two", "three", "four"):
        owner = found.enclosing(tokens.texts.index(word))
        owners[word] = owner.name if owner else None
    assert owners == {"one": "f", "two": None, "three": "g", "four": None}


def test_the_line_is_that_of_the_name():
    assert one("template <int N>\n__global__ void\n  k(int a)\n{ }").line == 3


def test_record_at():
    text = "struct A { int x; struct B { int y; }; }; int z;"
    found = structure(text)
    texts = CppFile(SourceFile("a.cu", text)).tokens.texts
    names = {w: found.record_at(texts.index(w)) for w in "xyz"}
    assert {w: r and r[0] for w, r in names.items()} == {"x": "A", "y": "B", "z": None}


# Types ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("int", "integer"),
        ("const unsigned long", "integer"),
        ("uint32_t", "integer"),
        ("std::size_t", "integer"),
        ("float", "float"),
        ("__half", "float"),
        ("const float *__restrict__", "pointer:float"),
        ("void *", "pointer:void"),
        ("int [4]", "pointer:int"),
        ("const CUtensorMap &", "class:CUtensorMap"),
        ("cuda::barrier", "class:barrier"),
        ("auto", "unknown"),
        ("Tensor < int , 2 >", "unknown"),
        ("", "unknown"),
    ],
)
def test_classify_type(text, kind):
    assert classify_type(text.replace("::", " :: ").replace("[", " [ ").replace("]", " ] ")) == kind


@pytest.mark.parametrize(
    ("argument", "parameter", "fits"),
    [
        ("integer", "uint32_t", True),
        ("integer", "float", None),  # converts, but a better overload may exist
        ("integer", "void *", False),
        ("pointer:float", "float *", True),
        ("pointer:float", "int *", False),
        ("pointer:float", "void *", None),
        ("pointer:float", "int", False),
        ("class:CUtensorMap", "CUtensorMap", True),
        ("class:CUtensorMap", "T", None),
        ("unknown", "int", None),
    ],
)
def test_argument_fits(argument, parameter, fits):
    assert argument_fits(argument, parameter, ("T",)) is fits
