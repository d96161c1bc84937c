"""C++ and PTX text inside Python strings and Jinja templates: sites, places, launches, what is no code."""

from __future__ import annotations

import textwrap

import ptxguard
from ptxguard.source.templates import is_opaque, without_fields

COPY = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
BODY = f'''
    extern __shared__ char box[];
    asm volatile("{COPY} [%0], [%1], 16, [%0];" :: "r"((unsigned)__cvta_generic_to_shared(box)), "l"(p));
'''


def check(tmp_path, monkeypatch, **files):
    """Result for files given as `name_ending=text`."""
    monkeypatch.chdir(tmp_path)
    for name, text in files.items():
        stem, _, ending = name.rpartition("_")
        (tmp_path / f"{stem}.{ending}").write_text(textwrap.dedent(text))
    return ptxguard.check_paths(["."])


def place_of(tmp_path, site):
    """The source text at a site's line and column."""
    lines = (tmp_path / site.span.path).read_text().splitlines()
    return lines[site.span.line - 1][site.span.column - 1 :]


def test_a_kernel_in_a_raw_string_with_its_launch(tmp_path, monkeypatch):
    text = (
        f'CODE = r"""\n__global__ void k(char* p) {{{BODY}}}\nvoid run(char* p) {{ k<<<1, 32>>>(p); }}\n"""\n'
    )
    found = check(tmp_path, monkeypatch, gen_py=text)
    (site,) = found.sites
    assert (site.kind, site.copy.opcode, site.function) == ("python_string", COPY, "k")
    assert (site.cluster.verdict, site.address.destination) == ("one", "local")
    assert place_of(tmp_path, site).startswith(COPY)
    assert [finding.severity.name.lower() for finding in found.findings] == ["error"]


def test_fields_of_an_f_string_are_opaque(tmp_path, monkeypatch):
    body = BODY.replace("{", "{{").replace("}", "}}")
    text = f'''
def make(dtype, stages):
    return f"""
template <int N> __global__ void k({{dtype}}* p) {{{{{body}}}}}
void run({{dtype}}* p) {{{{ k<{{stages}}><<<1, {{stages * 32}}>>>(p); }}}}
"""
'''
    found = check(tmp_path, monkeypatch, gen_py=text)
    (site,) = found.sites
    assert site.cluster.verdict == "one"
    assert place_of(tmp_path, site).startswith(COPY)


def test_a_kernel_that_is_named_by_a_field_is_undecided(tmp_path, monkeypatch):
    body = BODY.replace("{", "{{").replace("}", "}}")
    text = f'''
def make(name):
    return f"""
__global__ void {{name}}(char* p) {{{{{body}}}}}
void run(char* p) {{{{ {{name}}<<<1, 32>>>(p); }}}}
"""
'''
    found = check(tmp_path, monkeypatch, gen_py=text)
    (site,) = found.sites
    assert site.cluster.verdict == "undecided"
    assert site.cluster.reason == "a field names the kernel, so that its launches cannot be told (gen.py:4)"


def test_an_opcode_with_a_field_is_an_error(tmp_path, monkeypatch):
    code = BODY.replace("{", "{{").replace("}", "}}").replace("shared::cluster", "shared::{space}")
    text = f'def make(space):\n    return f"""\n__global__ void k(char* p) {{{{{code}}}}}\n"""\n'
    found = check(tmp_path, monkeypatch, gen_py=text)
    assert found.sites == ()
    assert ["cannot be read: a field decides" in str(error) for error in found.errors] == [True]


def test_text_in_docstrings_and_messages_is_no_code(tmp_path, monkeypatch):
    code = f"__global__ void k(char* p) {{{BODY}}}"
    text = f"def f():\n    r'''{code}'''\n    print(r'''{code}''')\n    assert g() == r'''{code}'''\n"
    found = check(tmp_path, monkeypatch, gen_py=text)
    assert (found.sites, found.errors) == ((), ())


def test_a_ptx_module_in_a_string(tmp_path, monkeypatch):
    text = f'''
MODULE = """
.version 8.6
.target sm_120a
.address_size 64
.visible .entry k(.param .u64 p) {{
    .shared .align 16 .b8 box[32];
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, box;
    {COPY} [%r1], [%rd1], 16, [%r1];
    ret;
}}
"""
'''
    found = check(tmp_path, monkeypatch, gen_py=text)
    (site,) = found.sites
    assert (site.kind, site.copy.opcode, site.address.destination) == ("python_string", COPY, "local")
    assert place_of(tmp_path, site).startswith(COPY)


def test_a_jinja_template_is_read_as_the_code_that_it_makes(tmp_path, monkeypatch):
    text = f"""{{% set stages = 2 %}}
#include <cuda.h>
{{# {COPY} is no code here #}}
{{% if wide %}}
template <int N> __global__ void k({{{{ dtype }}}}* p) {{{BODY}}}
{{% endif %}}
void run({{{{ dtype }}}}* p) {{ k<{{{{ stages }}}}><<<1, {{{{ threads }}}}>>>(p); }}
"""
    found = check(tmp_path, monkeypatch, kernel_jinja=text)
    (site,) = found.sites
    assert (site.copy.opcode, site.cluster.verdict, site.address.destination) == (COPY, "one", "local")
    assert place_of(tmp_path, site).startswith(COPY)


def test_a_launch_in_a_python_string_is_of_a_kernel_in_a_header(tmp_path, monkeypatch):
    header = f"template <int N> __global__ void k(char* p) {{{BODY}}}\n"
    maker = 'HOST = """\n#include "kernel.cuh"\nvoid run(char* p) { k<2><<<1, 32>>>(p); }\n"""\n'
    found = check(tmp_path, monkeypatch, kernel_cuh=header, make_py=maker)
    (site,) = found.sites
    assert (site.kind, site.cluster.verdict) == ("cpp_inline_asm", "one")
    assert {one.path for one in site.evidence if one.kind == "launch"} == {"make.py"}


def test_fields_keep_every_place():
    text = "a {{ x }} b\n{% if y %}\n{# c\nd #} {{ long.name | filter }}\nk_{{ n }}<<<"
    plain = without_fields(text)
    assert len(plain) == len(text)
    assert [i for i, c in enumerate(plain) if c == "\n"] == [i for i, c in enumerate(text) if c == "\n"]
    assert not set("{%#") & set(plain)
    assert is_opaque(plain.rpartition("\n")[2].removesuffix("<<<"))
    assert not is_opaque("copy_kernel")
