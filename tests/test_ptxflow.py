"""Whose shared memory a copy in a PTX module writes, and how large the cluster of its kernels is."""

import shutil
import subprocess
from pathlib import Path

import pytest

from ptxguard.arch import Target
from ptxguard.location import SourceFile
from ptxguard.source.ptxsites import sites_of_ptx

OPCODE = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
COPY = OPCODE + " [{}], [%rd9], 1024, [%r30];"
COPY_R9 = COPY.format("%r9")
HEADER = (
    ".version 8.6\n.target sm_90\n.address_size 64\n"
    ".extern .shared .align 16 .b8 pool[];\n.shared .b64 bar;\n"
)
ROOT = "mov.u32 %r1, tile;"


def entry(code, name="k", head="", copy=COPY_R9):
    return (
        f".visible .entry {name}(.param .u64 g, .param .u32 given)\n{head}{{\n"
        ".reg .b32 %r<40>; .reg .b64 %rd<10>; .reg .pred %p<3>;\n.shared .align 128 .b8 tile[1024];\n"
        f"ld.param.u64 %rd9, [g];\nmov.u32 %r30, bar;\n{code}\n{copy}\nret;\n}}\n"
    )


def only_site(text):
    (site,) = sites_of_ptx(SourceFile("k.ptx", HEADER + text), [Target.parse("sm_120")])
    return site


def owner(code, **options):
    return only_site(entry(code, **options)).address.destination


@pytest.mark.parametrize(
    "code",
    [
        "mov.u32 %r9, tile;",
        "mov.u32 %r9, pool;",
        "{.shared .b32 inner; mov.u32 %r9, inner; }",
        "mov.u32 %r9, tile+512;",
        "{ .reg .u64 t; cvta.shared.u64 t, tile; cvta.to.shared.u64 t, t; cvt.u32.u64 %r9, t; }",
        ROOT + "add.s32 %r9, %r1, 1023; and.b32 %r9, %r9, -1024;",
        ROOT + "add.s32 %r2, %r1, 127; and.b32 %r9, %r2, 0xFFFFFF80;",
        ROOT + "mov.u32 %r3, %tid.x; shl.b32 %r4, %r3, 10; add.s32 %r9, %r1, %r4;",
        ROOT + "mov.u32 %r3, %cluster_ctarank; mul.lo.s32 %r4, %r3, 1024; add.s32 %r9, %r4, %r1;",
        ROOT + "ld.param.u32 %r3, [given]; mad.lo.s32 %r9, %r3, 1024, %r1;",
        ROOT + "add.s32 %r2, %r1, 64; selp.b32 %r9, %r1, %r2, %p1;",
        ROOT + "xor.b32 %r9, %r1, 1024;",
        ROOT + "or.b32 %r9, %r1, 16;",
        ROOT + "sub.s32 %r9, %r1, 64;",
        ROOT + "shfl.sync.idx.b32 %r9|%p1, %r1, 0, 31, -1;",
        ROOT + "mov.u32 %r9, %r1; $L: add.s32 %r9, %r9, 1024; @%p1 bra $L;",
        ROOT + "mov.b32 %r3, 0; $L: add.s32 %r3, %r3, 1; and.b32 %r3, %r3, 3; shl.b32 %r4, %r3, 10;"
        "add.s32 %r9, %r1, %r4; @%p1 bra $L;",
        ROOT + "@%p1 mov.u32 %r9, %r1; @!%p1 mov.u32 %r9, pool;",
        # one register is an accumulator and the zero of a stage counter (as nvcc writes a CuTe pipeline)
        "mov.u32 %r7, 0; wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%r7, %r8}, %rd1, %rd2, p, 1, 1;"
        + ROOT
        + "mov.u32 %r3, %r7; $L: shl.b32 %r4, %r3, 14; add.s32 %r9, %r1, %r4; add.s32 %r5, %r3, 1;"
        "selp.b32 %r3, 0, %r5, %p1; @%p2 bra $L;",
        # i % 3 and i / 3 as compilers write them
        ROOT + "mul.wide.u32 %rd1, %tid.x, 2863311531; shr.u64 %rd2, %rd1, 33; cvt.u32.u64 %r4, %rd2;"
        "shl.b32 %r5, %r4, 10; add.s32 %r9, %r1, %r5;",
        ROOT + "mul.hi.u32 %r4, %tid.x, -1431655765; shr.u32 %r5, %r4, 1; mad.lo.s32 %r9, %r5, 1024, %r1;",
        ROOT + "shl.b32 %r3, %tid.x, 24; and.b32 %r4, %r3, 127; add.s32 %r9, %r1, %r4;",
    ],
)
def test_local(code):
    assert owner(code) == "local"


@pytest.mark.parametrize(
    "code",
    [
        ROOT + "mapa.shared::cluster.u32 %r9, %r1, 0;",
        ROOT + "mapa.shared::cluster.u32 %r2, %r1, %r7; add.s32 %r9, %r2, 64;",
        ROOT + "or.b32 %r9, %r1, 16777216;",
        ROOT + "xor.b32 %r9, %r1, 0x1000000;",
        ROOT + "add.s32 %r9, %r1, 0x1000000;",
        ROOT + "and.b32 %r9, %r1, -16777217;",
        ROOT + "and.b32 %r9, %r1, 0xFEFFFFFF;",
        ROOT
        + "mov.u32 %r3, %cluster_ctarank; xor.b32 %r3, %r3, 1; shl.b32 %r4, %r3, 24; or.b32 %r9, %r1, %r4;",
        ROOT + "mov.u32 %r3, %cluster_ctarank; mad.lo.u32 %r9, %r3, 16777216, %r1;",
        ROOT + "mov.u32 %r3, 16777216; add.s32 %r9, %r3, %r1;",
        ROOT + "add.s32 %r3, %tid.x, 16777216; add.s32 %r9, %r3, %r1;",
        ROOT + "selp.b32 %r3, 0, 16777216, %p1; xor.b32 %r9, %r1, %r3;",
        ROOT
        + "ld.param.u32 %r3, [given]; shl.b32 %r4, %r3, 24; add.s32 %r5, %r4, %r3; add.s32 %r9, %r1, %r5;",
        ROOT + "mapa.u32 %r2, %r1, 1; selp.b32 %r9, %r1, %r2, %p1;",
    ],
)
def test_peer(code):
    assert owner(code) == "peer"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("ld.param.u32 %r9, [given];", "from the parameter `given`"),
        ("ld.shared.u32 %r9, [tile];", "loaded from memory"),
        ("mov.u32 %r9, 1024;", "a number"),
        ("", "nothing in the function writes"),
        ("mov.u32 %r3, %cluster_ctarank;" + ROOT + "mapa.u32 %r9, %r1, %r3;", "own cluster rank"),
        (ROOT + "mapa.u32 %r9, %r1, %cluster_ctarank;", "own cluster rank"),
        (ROOT + "and.b32 %r9, %r1, %r3;", "mask that is no constant"),
        (ROOT + "shl.b32 %r4, %r3, %r5; add.s32 %r9, %r1, %r4;", "no constant"),
        (
            ROOT + "mov.u32 %r3, %tid.x; shl.b32 %r4, %r3, 12; shl.b32 %r5, %r4, 12; add.s32 %r9, %r1, %r5;",
            "rank",
        ),
        (ROOT + "add.s32 %r4, %tid.x, 0x12345678; add.s32 %r9, %r1, %r4;", "rank's bits"),
        (ROOT + "shr.u32 %r9, %r1, 4;", "by `shr`"),
        (ROOT + "sub.s32 %r2, %r3, %r1; add.s32 %r9, %r2, %r1;", "difference"),
        (ROOT + "ld.param.u32 %r2, [given]; selp.b32 %r9, %r1, %r2, %p1;", "on one of several ways"),
        (ROOT + "mov.u32 %r9, %r1; $L: xor.b32 %r9, %r9, 16777216; @%p1 bra $L;", "on one of several ways"),
        (ROOT + "lop3.b32 %r9, %r1, %r2, %r3, 0xEA;", "by `lop3.b32`"),
    ],
)
def test_unknown_with_its_reason(code, reason):
    address = only_site(entry(code)).address
    assert address.destination == "unknown"
    assert reason in address.reason


def test_damaged_and_endless_code_is_no_trap():
    assert owner(ROOT + "mapa.u32 %r9;") == "unknown"
    assert owner(ROOT + "mapa.u32 %r9, %r1;") == "peer"
    assert owner("\n" * 100_000 + "mov.u32 %r9, tile;") == "local"
    chain = "".join(f"add.s32 %r{i + 1}, %r{i}, 4;" for i in range(1000, 2000))
    address = only_site(entry("mov.u32 %r1000, tile;" + chain + "mov.u32 %r9, %r2000;")).address
    assert address.destination == "unknown"
    assert "too long to follow" in address.reason


def test_offsets_in_the_operand_itself():
    assert owner(ROOT, copy=COPY.format("%r1+1024")) == "local"
    assert owner(ROOT, copy=COPY.format("tile")) == "local"
    assert owner(ROOT, copy=COPY.format("%r1+16777216")) == "peer"


def test_mbarrier_of_a_peer_is_told_apart():
    code = ROOT + "mov.u32 %r9, %r1; mapa.shared::cluster.u32 %r30, %r30, 0;"
    address = only_site(entry(code).replace("mov.u32 %r30, bar;", "mov.u32 %r29, bar;")).address
    assert (address.destination, address.mbarrier) == ("local", "peer")
    assert [item.text for item in address.evidence] == [".shared tile", "mapa.shared::cluster.u32 %r30 0"]


def test_evidence_has_lines():
    site = only_site(entry("mov.u32 %r9, tile;"))
    assert [(item.line, item.text) for item in site.address.evidence] == [
        (9, ".shared tile"),
        (5, ".shared bar"),
    ]
    assert "line 9" in site.address.reason


FUNCTION = (
    "{linkage}.func load(.param .b32 load_param_0, .param .b64 load_param_1)\n{{\n"
    ".reg .b32 %r<40>; .reg .b64 %rd<10>;\n"
    "ld.param.u32 %r9, [load_param_0];\nld.param.u64 %rd9, [load_param_1];\nmov.u32 %r30, bar;\n"
    + COPY_R9
    + "\nret;\n}}\n"
)


def caller(name, code, head=""):
    call = (
        f"{code}\n{{ // callseq 0, 0\n.param .b32 param0;\nst.param.b32 [param0+0], %r1;\n"
        ".param .b64 param1;\nst.param.b64 [param1+0], %rd9;\ncall.uni load, (param0, param1);\n}"
    )
    return entry(call, name=name, head=head, copy="")


def test_parameter_is_local_if_it_is_at_every_call():
    both = FUNCTION.format(linkage="") + caller("one", ROOT) + caller("two", "mov.u32 %r1, pool;")
    site = only_site(both)
    assert (site.function, site.address.destination) == ("load", "local")
    assert [kernel.name for kernel in site.kernels] == ["one", "two"]
    mixed = FUNCTION.format(linkage="") + caller("one", ROOT) + caller("two", "ld.param.u32 %r1, [given];")
    assert only_site(mixed).address.destination == "unknown"
    peer = FUNCTION.format(linkage="") + caller("one", ROOT + "mapa.u32 %r1, %r1, 1;")
    assert only_site(peer).address.destination == "peer"


def test_parameter_is_unknown_if_others_may_call():
    visible = FUNCTION.format(linkage=".visible ") + caller("one", ROOT, head=".reqnctapercluster 1\n")
    site = only_site(visible)
    assert site.address.destination == "unknown"
    assert site.cluster.verdict == "undecided"
    taken = FUNCTION.format(linkage="") + caller("one", ROOT + "mov.u64 %rd3, load;")
    assert only_site(taken).address.destination == "unknown"
    table = FUNCTION.format(linkage="") + ".global .u64 table[1] = {load};\n" + caller("one", ROOT)
    assert only_site(table).address.destination == "unknown"
    assert only_site(FUNCTION.format(linkage="")).address.destination == "unknown"


def test_prototypes_and_comments_take_no_address():
    prototype = ".func load(.param .b32 load_param_0, .param .b64 load_param_1);\n"
    text = prototype + "// x = load\n" + FUNCTION.format(linkage="") + caller("one", ROOT + "// load")
    assert only_site(text).address.destination == "local"


@pytest.mark.parametrize(
    ("head", "verdict", "word"),
    [
        (".reqnctapercluster 1, 1, 1\n", "one", "cluster of 1"),
        (".explicitcluster .reqnctapercluster 1\n", "one", "cluster of 1"),
        (".explicitcluster\n.reqnctapercluster 2, 1, 1\n", "larger", "cluster of 2"),
        (".reqnctapercluster 2, 2\n", "larger", "cluster of 4"),
        (".maxclusterrank 1\n", "one", "maxclusterrank 1"),
        (".maxclusterrank 8\n", "undecided", "outside this file"),
        (".explicitcluster\n", "undecided", "leaves the size to the launch"),
        (".maxntid 128\n", "undecided", "outside this file"),
    ],
)
def test_cluster_of_a_kernel(head, verdict, word):
    cluster = only_site(entry("mov.u32 %r9, tile;", head=head)).cluster
    assert cluster.verdict == verdict
    assert word in cluster.reason
    assert cluster.launches_in_sight == (verdict != "undecided")


def test_cluster_over_several_kernels():
    load = FUNCTION.format(linkage="")
    one, two, none = (f".reqnctapercluster {size}\n" if size else "" for size in (1, 2, 0))
    for heads, verdict in (((one, one), "one"), ((one, two), "larger"), ((one, none), "undecided")):
        text = load + caller("a", ROOT, head=heads[0]) + caller("b", ROOT, head=heads[1])
        assert only_site(text).cluster.verdict == verdict


def test_cluster_evidence_names_what_needs_a_cluster():
    code = ROOT + "mov.u32 %r9, %r1; mapa.shared::cluster.u32 %r5, %r1, 1; barrier.cluster.arrive;"
    evidence = only_site(entry(code, head=".explicitcluster\n")).cluster.evidence
    assert [(item.kind, item.text) for item in evidence] == [
        ("attribute", "k: .explicitcluster"),
        ("asm", "k uses mapa"),
        ("asm", "k uses barrier.cluster"),
    ]


@pytest.mark.ptxas
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on PATH")
def test_what_nvcc_makes_of_known_sources(tmp_path):
    # flow.cu says in its comments whose memory each copy writes.
    source = Path(__file__).parent / "data" / "flow.cu"
    command = ["nvcc", "-arch=sm_90", "-std=c++17", "-ptx", "-o", "flow.ptx", source]
    subprocess.run(command, cwd=tmp_path, check=True)
    text = (tmp_path / "flow.ptx").read_text()
    sites = sites_of_ptx(SourceFile("flow.ptx", text), [Target.parse("sm_120")])
    found = [(len(site.kernels), site.address.destination, site.address.mbarrier) for site in sites]
    assert found == [
        (2, "local", "local"),
        (1, "peer", "local"),
        (1, "peer", "local"),
        (1, "local", "peer"),
        (1, "unknown", "local"),
    ]
