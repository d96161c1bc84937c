"""Fixes of whole trees: which bytes change and which do not, options, exit status."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from fixkit import LAUNCHED, LOCAL, MULTICAST, PAIR, PEER, check, fix
from sourcekit import CLUSTER, copy, kernel, write

CTA_TEXT, CLUSTER_TEXT = "shared::cta.global", "shared::cluster.global"
ODD = "// gr\u00fc\u00df dich \u00b5\u00df\r\n" + LOCAL.replace("\n", "\r\n") + "// no line end"
ENCODINGS = {
    "utf-8": (b"", "utf-8"),
    "utf-8 with a mark": (b"\xef\xbb\xbf", "utf-8"),
    "utf-16 little": (b"\xff\xfe", "utf-16-le"),
    "utf-16 big": (b"\xfe\xff", "utf-16-be"),
    "utf-32 little": (b"\xff\xfe\0\0", "utf-32-le"),
    "utf-32 big": (b"\0\0\xfe\xff", "utf-32-be"),
    "latin-1": (b"", "latin-1"),
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_encoding_and_line_ends_survive(name, tmp_path):
    mark, encoding = ENCODINGS[name]
    before = mark + ODD.encode(encoding)
    wanted = mark + ODD.replace(CLUSTER_TEXT, CTA_TEXT).encode(encoding)
    assert fix(tmp_path, {"a.cu": before})["a.cu"] == wanted != before


def test_a_link_in_the_tree_is_the_same_file(tmp_path):
    write(tmp_path, {"a.cu": LOCAL})
    (tmp_path / "b.cu").symlink_to("a.cu")
    ran = check(tmp_path, "--fix")
    assert (ran.status, ran.err) == (0, "ptxguard: fixed 2 copies in 1 file\n")
    assert (tmp_path / "b.cu").is_symlink()
    assert (tmp_path / "a.cu").read_text() == LOCAL.replace(CLUSTER_TEXT, CTA_TEXT)


def test_a_second_run_changes_nothing(tmp_path):
    once = fix(tmp_path, {"a.cu": LOCAL})
    ran = check(tmp_path, "--fix")
    assert (ran.status, ran.err) == (0, "")
    assert (tmp_path / "a.cu").read_bytes() == once["a.cu"]


def test_only_what_is_proved_is_touched(tmp_path):
    files = {"peer.cu": PEER, "cast.cu": MULTICAST, "pair.cu": PAIR, "far.cu": LAUNCHED}
    after = fix(tmp_path, files)
    same = {name for name in files if after[name] == files[name].encode()}
    assert same == {"peer.cu", "cast.cu", "far.cu"}
    assert after["pair.cu"].decode() == PAIR.replace(CLUSTER_TEXT, CTA_TEXT)


def test_unsafe_fixes_have_to_be_asked_for(tmp_path):
    after = fix(tmp_path, {"far.cu": LAUNCHED, "peer.cu": PEER}, "--unsafe-fixes")
    assert after["far.cu"].decode() == LAUNCHED.replace(CLUSTER_TEXT, CTA_TEXT)
    assert after["peer.cu"].decode() == PEER


CUT = LOCAL.replace("shared::cluster.global", 'shared::clu"\n  /* cut */ "ster.global')


def test_a_word_that_is_cut_in_two(tmp_path):
    after = fix(tmp_path, {"a.cu": CUT})["a.cu"].decode()
    assert after == CUT.replace("clu", "cta", 1).replace("ster.global", ".global")


def test_a_raw_string(tmp_path):
    raw = LOCAL.replace('asm volatile("', 'asm volatile(R"ptx(').replace('%2];" ::', '%2];)ptx" ::')
    assert raw != LOCAL
    assert fix(tmp_path, {"a.cu": raw})["a.cu"].decode() == raw.replace(CLUSTER_TEXT, CTA_TEXT)


def test_code_inside_a_raw_string(tmp_path):
    made = f'const char *code = R"(\n{LOCAL})";\n'
    assert fix(tmp_path, {"make.cc": made})["make.cc"].decode() == made.replace(CLUSTER_TEXT, CTA_TEXT)


def test_a_ptx_module(tmp_path):
    text = """.version 8.7
.target sm_120a
.address_size 64
.visible .entry k(.param .b64 from) {
  .shared .align 128 .b8 box[1024];
  .shared .align 8 .b64 full;
  .reg .b64 %rd<2>; .reg .b32 %r<3>;
  ld.param.b64 %rd1, [from];
  mov.b32 %r1, box;
  mov.b32 %r2, full;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 1024, [%r2];
  ret;
}
"""
    after = fix(tmp_path, {"a.ptx": text}, "--cuda-min", "12.4")["a.ptx"].decode()
    assert after == text.replace(CLUSTER_TEXT, CTA_TEXT)  # its .version says 12.8, so nothing is guarded


# Macros ---------------------------------------------------------------------------------------------


def by_macro(*kernels: str) -> str:
    """Kernels whose copies take the space from one macro."""
    text = '#define SPACE "shared::cluster"\n' + "\n".join(kernels)
    head, _, rest = text.partition("\n")
    return head + "\n" + rest.replace("cp.async.bulk.shared::cluster.", 'cp.async.bulk." SPACE ".')


def test_a_macro_of_two_local_copies_is_changed_once(tmp_path):
    source = by_macro(LOCAL, PAIR)
    after = fix(tmp_path, {"a.cu": source})["a.cu"].decode()
    assert after == source.replace('"shared::cluster"', '"shared::cta"', 1)
    assert after.count("shared::cta") == 1


@pytest.mark.parametrize(
    "other",
    [
        PEER,
        MULTICAST,
        'void store(unsigned a) { asm volatile("st.async.mbarrier." SPACE ".b32 [%0], 1, [%0];" :: "r"(a)); }',
    ],
    ids=["a peer's copy", "a multicast", "another instruction"],
)
def test_a_macro_that_something_else_needs_stays(other, tmp_path):
    source = by_macro(LOCAL, other)
    assert fix(tmp_path, {"a.cu": source})["a.cu"].decode() == source


def test_a_macro_with_an_unsafe_copy_makes_both_unsafe(tmp_path):
    source = by_macro(LOCAL, LAUNCHED)
    wanted = source.replace('"shared::cluster"', '"shared::cta"', 1)
    assert fix(tmp_path, {"a.cu": source})["a.cu"].decode() == source
    assert fix(tmp_path, {"a.cu": source}, "--unsafe-fixes")["a.cu"].decode() == wanted


def test_a_macro_of_a_header_that_was_not_named_stays(tmp_path):
    files = {"inc/space.cuh": '#define SPACE "shared::cluster"\n', "src/a.cu": by_macro(LOCAL)}
    files["src/a.cu"] = '#include "../inc/space.cuh"\n' + files["src/a.cu"].partition("\n")[2]
    write(tmp_path, {**files, ".git/HEAD": "ref: refs/heads/main\n"})
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    ran = check(tmp_path / "src", "--fix")
    assert "the text stands in ../inc/space.cuh, which was not named" in ran.err
    assert ran.status == 1
    ran = check(tmp_path, "--fix")
    assert ran.status == 0
    assert (tmp_path / "inc/space.cuh").read_text() == '#define SPACE "shared::cta"\n'


NESTED = """#define SPACE "shared::cluster"
#define COPY "cp.async.bulk." SPACE ".global.mbarrier::complete_tx::bytes"
"""


@pytest.mark.parametrize(("other", "changes"), [(PAIR, True), (PEER, False)], ids=["local", "peer"])
def test_a_macro_inside_a_macro_is_followed_to_every_copy(other, changes, tmp_path):
    """Only the header names the inner macro; the copies of both files are made with the outer one."""

    def made(text: str) -> str:
        return '#include "space.cuh"\n' + text.replace(f'"{CLUSTER} ', 'COPY " ')

    files = {"space.cuh": NESTED, "a.cu": made(LOCAL), "b.cu": made(other)}
    after = fix(tmp_path, files)
    wanted = NESTED.replace("cluster", "cta", 1) if changes else NESTED
    assert {name: text.decode() for name, text in after.items()} == {**files, "space.cuh": wanted}


def test_a_macro_that_is_handed_to_another_macro_stays(tmp_path):
    files = {
        "map.cuh": '#define MAP(space, a) asm volatile("mapa." space ".u32 %0, %0, 1;" : "+r"(a))\n',
        "a.cu": '#include "map.cuh"\n' + by_macro(LOCAL, "__device__ void f(unsigned a) { MAP(SPACE, a); }"),
    }
    assert {name: text.decode() for name, text in fix(tmp_path, files).items()} == files


def test_a_macro_that_others_use_stays(tmp_path):
    source = by_macro(LOCAL)
    assert fix(tmp_path, {"a.cuh": source}, "--public", "*.cuh")["a.cuh"].decode() == source
    assert fix(tmp_path, {"a.cuh": source}, "--public", "*.hpp")["a.cuh"].decode() != source


def test_an_argument_of_a_macro_stays(tmp_path):
    """Each use of the macro gives its own text; nobody has looked at them one by one."""
    source = f"""#define LOAD(space, dst, bar) asm volatile("cp.async.bulk." space \\
  ".global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];" :: "r"(dst), "l"(src), "r"(bar) : "memory")
{kernel('LOAD("shared::cluster", s, b);')}
"""
    assert fix(tmp_path, {"a.cu": source})["a.cu"].decode() == source


# Options --------------------------------------------------------------------------------------------


def test_diff_is_what_fix_does_and_changes_nothing(tmp_path):
    files = {"a.cu": ODD.encode(), "b/c.cuh": CUT.encode(), "none.cu": PEER.encode()}
    write(tmp_path, files)
    ran = check(tmp_path, "--diff")
    assert ran.status == 1
    assert {name: (tmp_path / name).read_bytes() for name in files} == files
    patched = tmp_path / "patched"
    write(patched, files)
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    command = ["git", "apply", "-p0", "--whitespace=nowarn", "-"]
    subprocess.run(["git", "init", "-q", str(patched)], check=True)
    subprocess.run(command, cwd=patched, input=ran.out.encode(), check=True)
    fixed = fix(tmp_path / "fixed", files)
    assert {name: (patched / name).read_bytes() for name in files} == fixed
    assert check(tmp_path / "fixed", "--diff").status == 0


def test_exit_status_and_report_speak_of_what_is_left(tmp_path):
    write(tmp_path, {"a.cu": LOCAL, "far.cu": LAUNCHED})
    ran = check(tmp_path, "--fix")
    assert ran.status == 1  # an unsafe fix is left
    assert "ptxguard: fixed 1 copy in 1 file" in ran.err
    assert "1 error among 2 bulk copies in 2 files" in " ".join(ran.out.split())
    assert ran.out.rstrip().endswith("; 1 fixed")
    ran = check(tmp_path, "--fix", "--unsafe-fixes", "--output-format", "json")
    assert ran.status == 0
    assert json.loads(ran.out)["findings"] == []


def test_fix_only_reports_nothing_that_is_left(tmp_path):
    write(tmp_path, {"a.cu": LOCAL, "far.cu": LAUNCHED})
    ran = check(tmp_path, "--fix-only")
    assert (ran.status, ran.out) == (0, "")
    assert (tmp_path / "a.cu").read_text() == LOCAL.replace(CLUSTER_TEXT, CTA_TEXT)


@pytest.mark.parametrize("options", [["--fix", "--diff"], ["--unsafe-fixes"], ["--verify"]])
def test_options_that_mean_nothing_together(options, tmp_path):
    write(tmp_path, {"a.cu": LOCAL})
    ran = check(tmp_path, *options)
    assert ran.status == 2
    assert (tmp_path / "a.cu").read_text() == LOCAL


HELPER = f"__device__ void pull(unsigned dst, const void *src, unsigned bar) {{ {copy()} }}\n"


def test_the_word_of_the_user(tmp_path):
    files = {"a.cuh": HELPER, "b.cuh": HELPER.replace("pull", "push"), "peer.cu": PEER, "cast.cu": MULTICAST}
    after = fix(tmp_path, files, "--assume-local", "pu*l", "--assume-local", "*.cu")
    assert {name: text.decode() for name, text in after.items()} == files  # unsafe
    after = fix(tmp_path, files, "--unsafe-fixes", "--assume-local", "pu*l", "--assume-local", "*.cu")
    files["a.cuh"] = HELPER.replace(CLUSTER_TEXT, CTA_TEXT)
    assert {name: text.decode() for name, text in after.items()} == files


def test_the_offer_stands_in_the_record(tmp_path):
    write(tmp_path, {"a.cuh": HELPER})
    for options, safety in (((), None), (("--assume-local", "a.cuh"), "unsafe")):
        (found,) = json.loads(check(tmp_path, "--output-format", "json", *options).out)["findings"]
        assert (found["fix"] and found["fix"]["safety"]) == safety
        assert set(found["fix"] or {"safety", "edits"}) == {"safety", "edits"}
        assert found["opcode"] == CLUSTER
