"""PTX modules: what is split off without parsing, what is found on demand, and where errors are."""

import shutil
import subprocess

import pytest

from ptxguard.arch import Target
from ptxguard.errors import ParseError
from ptxguard.location import SourceFile
from ptxguard.source.ptxmodule import read_module
from ptxguard.source.ptxsites import is_assembled, sites_of_ptx

MBARRIER = "mbarrier::complete_tx::bytes"
HEADER = ".version 8.6\n.target sm_90\n.address_size 64\n"
LOAD = f"cp.async.bulk.shared::cluster.global.{MBARRIER} [%r1], [%rd1], 1024, [%r2];"

MODULE = f"""//
// a comment with {{ and "
.version 8.7
.target sm_90a, debug
.address_size 64
.extern .shared .align 16 .b8 pool[];
.global .align 4 .u32 table[2] = {{1, 2}};
.shared .b32 a, b;
.extern .func (.param .b32 func_retval0) vprintf (.param .b64 vprintf_param_0, .param .b64 vprintf_param_1);
.func (.reg .b32 r) helper (.reg .b32 x) {{ add.u32 r, x, 1; ret; }}
\t// .globl main
.visible .entry main(
\t.param .align 64 .b8 main_param_0[128],
\t.param .u64 .ptr .global .align 4 main_param_1
)
.maxntid 128, 1, 1
.minnctapersm 2
.explicitcluster
.reqnctapercluster 2, 1, 1
{{
\t.reg .b32 %r<5>; // }}
\t.shared .align 128 .b8 tile[1024];
\t/* {LOAD} */
\t@%p1 {LOAD}
\tmov.b64 {{%r3, %r4}}, %rd2;
\t.loc 1 5 2
$L: {{ bra $L; }}
\tret;
}}
.file 1 "x{{.cu"
.section .debug_str
{{
$info: .b8 95,90
}}
.weak .entry empty {{ ret; }}
"""


def test_heads_of_a_module():
    module = read_module(MODULE)
    assert (module.version, module.target, module.address_size) == ((8, 7), "sm_90a", 64)
    variables = [(item.name, item.space, item.is_extern) for item in module.variables]
    assert variables == [
        ("pool", "shared", True),
        ("table", "global", False),
        ("a", "shared", False),
        ("b", "shared", False),
    ]
    found = [(item.name, item.linkage, item.is_entry, item.is_defined) for item in module.functions]
    assert found == [
        ("vprintf", "extern", False, False),
        ("helper", "", False, True),
        ("main", "visible", True, True),
        ("empty", "weak", True, True),
    ]
    main = module.functions[2]
    assert main.params == ("main_param_0", "main_param_1")
    assert main.tuning == {
        "maxntid": (128, 1, 1),
        "minnctapersm": (2,),
        "explicitcluster": (),
        "reqnctapercluster": (2, 1, 1),
    }
    assert module.text[main.start :].startswith(".visible .entry main")
    assert module.text[main.body_end :].startswith("}\n.file")
    assert module.functions[1].results == ("r",)
    assert module.functions[1].params == ("x",)
    assert module.functions[0].params == ("vprintf_param_0", "vprintf_param_1")
    assert module.line(main.start) == 12


def test_instructions_are_parsed_on_demand_and_in_place():
    module = read_module(MODULE)
    main = module.functions[2]
    assert main.mentions("cp.async.bulk")
    assert not module.functions[1].mentions("cp.async.bulk")
    (copy,) = main.body.instructions_with("cp.async.bulk")
    assert copy.predicate == "@%p1"
    assert module.text[copy.start : copy.mnemonic_end] == copy.opcode
    assert module.line(copy.start) == 24
    assert module.text[copy.operands[1].start : copy.operands[1].end] == "[%rd1]"
    assert list(main.body.shared_variables) == ["tile"]
    (unpacked,) = main.body.definitions("%r4")
    assert (unpacked.opcode, unpacked.results, unpacked.sources) == ("mov.b64", ("%r3", "%r4"), ("%rd2",))


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("", 1, 1),
        ("int main() { return 0; }", 1, 1),
        (".target sm_90\n.entry k {}", 1, 1),
        (HEADER + ".entry k {\n  ret; }\n }", 6, 2),
        (HEADER + ".entry k {\n  ret;", 4, 10),
        (HEADER + "  /* never\n.entry k {}", 4, 3),
        (HEADER + '.file 1 "never\n.entry k {}', 4, 9),
    ],
)
def test_errors_have_line_and_column(text, line, column):
    with pytest.raises(ParseError) as caught:
        read_module(text)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_a_copy_that_cannot_be_parsed_is_an_error_with_its_place():
    text = HEADER + ".entry k { ret;\n  cp.async.bulk.shared::cluster.global [a, ; }"
    with pytest.raises(ParseError) as caught:
        sites_of_ptx(SourceFile("dir/k.ptx", text), [])
    assert str(caught.value).startswith("dir/k.ptx:5:44: no PTX")


TARGETS = [Target.parse(name) for name in ("sm_90a", "sm_103a", "sm_120", "sm_120a", "sm_121f")]


def compiled_for(module_target):
    return [str(target) for target in TARGETS if is_assembled(module_target, target)]


def test_which_targets_take_the_ptx():
    assert compiled_for("sm_90") == ["sm_90a", "sm_103a", "sm_120", "sm_120a", "sm_121f"]
    assert compiled_for("sm_90a") == ["sm_90a"]
    assert compiled_for("sm_100f") == ["sm_103a"]
    assert compiled_for("sm_120") == ["sm_120", "sm_120a", "sm_121f"]
    assert compiled_for("sm_120f") == ["sm_120", "sm_120a", "sm_121f"]
    assert compiled_for("sm_121") == ["sm_121f"]
    assert compiled_for("texmode_unified") == []


@pytest.mark.ptxas
@pytest.mark.skipif(shutil.which("ptxas") is None, reason="no ptxas on PATH")
@pytest.mark.parametrize("written", ["sm_90", "sm_90a", "sm_100f", "sm_110f", "sm_120", "sm_120f", "sm_121a"])
def test_targets_with_ptxas(tmp_path, written):
    (tmp_path / "a.ptx").write_text(
        f".version 9.0\n.target {written}\n.address_size 64\n.entry k() {{ ret; }}\n"
    )
    for name in ("sm_90a", "sm_100", "sm_103a", "sm_110a", "sm_120", "sm_120a", "sm_121", "sm_121a"):
        command = ["ptxas", f"-arch={name}", "-o", "a.cubin", "a.ptx"]
        status = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode
        assert is_assembled(written, Target.parse(name)) == (status == 0), name


def kernel(copy, version="8.6", target="sm_90", head=""):
    return (
        f".version {version}\n.target {target}\n.address_size 64\n"
        f".visible .entry k(.param .u64 g)\n{head}{{\n.reg .b32 %r<9>; .reg .b64 %rd<9>;\n"
        ".shared .align 128 .b8 tile[1024]; .shared .b64 bar;\n"
        f"ld.param.u64 %rd1, [g]; mov.u32 %r1, tile; mov.u32 %r2, bar;\n{copy}\nret;\n}}\n"
    )


def test_site_of_a_kernel():
    (site,) = sites_of_ptx(SourceFile("k.ptx", kernel(LOAD)), TARGETS)
    assert (site.span.line, site.span.column, site.span.text) == (9, 1, LOAD.split()[0])
    assert (site.kind, site.function) == ("ptx", "k")
    assert [(item.name, item.line) for item in site.kernels] == [("k", 4)]
    assert set(site.targets.values()) == {"compiled"}
    assert site.on_target == {
        "sm_90a": "native",
        "sm_103a": "native",
        "sm_120": "syscall",
        "sm_120a": "syscall",
        "sm_121f": "syscall",
    }
    assert (site.address.destination, site.address.mbarrier) == ("local", "local")
    (space,) = site.space_spans
    fixed = space.file.text[: space.start] + "cta" + space.file.text[space.end :]
    (after,) = sites_of_ptx(SourceFile("k.ptx", fixed), TARGETS)
    assert after.copy.opcode == f"cp.async.bulk.shared::cta.global.{MBARRIER}"
    assert set(after.on_target.values()) == {"native"}
    assert after.space_spans == ()


def test_no_rewrite_where_the_module_version_lacks_the_cta_form():
    (site,) = sites_of_ptx(SourceFile("k.ptx", kernel(LOAD, version="8.5")), TARGETS)
    assert site.on_target["sm_120"] == "syscall"
    assert site.space_spans == ()
    (cta,) = sites_of_ptx(
        SourceFile("k.ptx", kernel(LOAD.replace("::cluster", "::cta"), version="8.5")), TARGETS
    )
    assert set(cta.on_target.values()) == {"rejected"}


def test_sites_skip_what_is_no_copy():
    text = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; // cp.async.bulk.shared::cluster.global"
    assert sites_of_ptx(SourceFile("k.ptx", kernel(text)), TARGETS) == []
    assert sites_of_ptx(SourceFile("k.ptx", kernel("")), TARGETS) == []


def test_setmaxnreg_is_seen():
    text = "setmaxnreg.inc.sync.aligned.u32 232; " + LOAD
    (site,) = sites_of_ptx(SourceFile("k.ptx", kernel(text, target="sm_120a")), TARGETS)
    assert site.uses_setmaxnreg
    assert site.targets["sm_120a"] == "compiled"
    assert site.targets["sm_120"] == "excluded"
