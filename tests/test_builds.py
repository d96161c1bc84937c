"""Targets that build files name: flags, lists, CMake, compilation databases, per file; macros that builds define."""

from __future__ import annotations

import json

import pytest

import ptxguard
from ptxguard.arch import Target
from ptxguard.builds import BuildFile, Builds, judge
from ptxguard.flags import built_by_flags, built_by_lists, leaves_targets_open

SM12X = (Target.parse("sm_120"), Target.parse("sm_121a"))

KERNEL = """__global__ void pull(const float4* from) {
  __shared__ alignas(128) float box[256];
  __shared__ alignas(8) unsigned long long full;
  unsigned dst = (unsigned)__cvta_generic_to_shared(box), bar = (unsigned)__cvta_generic_to_shared(&full);
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];"
      ::"r"(dst), "l"(from), "r"(bar) : "memory");
}
"""


def named(text):
    found = [*built_by_flags("setup.py", text), *built_by_lists("setup.py", text)]
    return sorted({(one.target.name, one.kind) for one in found})


# nvcc, "GPU Compilation": -arch=sm_X is arch=compute_X,code=[sm_X,compute_X]; PyTorch and CMake as documented.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-gencode arch=compute_90a,code=sm_90a", [("sm_90a", "real")]),
        ("-gencode=arch=compute_90,code=[sm_90,compute_90]", [("sm_90", "ptx"), ("sm_90", "real")]),
        ('"-gencode", "arch=compute_100,code=compute_100"', [("sm_100", "ptx")]),
        (
            '--generate-code=arch=compute_120,code=\\"sm_120,sm_121\\"',
            [("sm_120", "real"), ("sm_121", "real")],
        ),
        ("nvcc -arch=sm_90a a.cu", [("sm_90a", "ptx"), ("sm_90a", "real")]),
        ("nvcc --gpu-architecture sm_80", [("sm_80", "ptx"), ("sm_80", "real")]),
        ("nvcc -arch=compute_90", [("sm_90", "ptx")]),
        ('TORCH_CUDA_ARCH_LIST="8.0;9.0a"', [("sm_80", "real"), ("sm_90a", "real")]),
        ("TORCH_CUDA_ARCH_LIST: 9.0 12.0+PTX", [("sm_120", "ptx"), ("sm_120", "real"), ("sm_90", "real")]),
        (
            'environ["TORCH_CUDA_ARCH_LIST"] = "9.0 10.0a"',
            [("sm_100a", "real"), ("sm_90", "real")],
        ),
        ("cmake -DCMAKE_CUDA_ARCHITECTURES=90a-real;120-virtual ..", [("sm_120", "ptx"), ("sm_90a", "real")]),
        ("compute_stride(90); sm_count = 120; arch = 'sm_90'", []),
        ("torch.cuda.get_device_capability() == (9, 0)", []),
    ],
)
def test_flags_and_lists(text, expected):
    assert named(text) == expected


@pytest.mark.parametrize(
    ("text", "is_open"),
    [
        ('f"-gencode=arch=compute_{major}{minor},code=sm_{major}{minor}"', True),
        ('"-arch=sm_" + arch', True),
        ("-arch=native", True),
        ('set(CMAKE_CUDA_ARCHITECTURES "native")', True),
        ("-gencode arch=compute_90a,code=sm_90a", False),
    ],
)
def test_targets_that_are_computed_leave_the_list_open(text, is_open):
    assert (leaves_targets_open("setup.py", text) is not None) is is_open


def builds_of(tmp_path, files):
    made = []
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        made.append(BuildFile(str(path), name))
    return Builds(made)


def verdict(tmp_path, files, *paths):
    found = judge(builds_of(tmp_path, files), paths or ("src/k.cu",), SM12X)
    return found.verdict, [(link.path, link.line) for link in found.evidence]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, ("unknown", [])),
        ({"setup.py": "flags = []\n"}, ("unknown", [])),
        ({"setup.py": "\n'-gencode', 'arch=compute_90a,code=sm_90a'\n"}, ("others", [("setup.py", 2)])),
        ({"setup.py": "'arch=compute_120a,code=sm_120a'\n"}, ("named", [("setup.py", 1)])),
        ({"Makefile": "A = -arch=sm_90\n"}, ("ptx", [("Makefile", 1)])),
        ({"Makefile": "A = -arch=sm_90a\n"}, ("others", [("Makefile", 1)])),
        ({"Makefile": "# -arch=sm_90a\n"}, ("unknown", [])),
        (
            {"Makefile": "A = -arch=sm_90a\n", "jit.py": 'f"-arch=sm_{arch}"\n'},
            ("unknown", [("jit.py", 1)]),
        ),
        ({"CMakeLists.txt": "set(CMAKE_CUDA_ARCHITECTURES 80 90a-real)\n"}, ("ptx", [("CMakeLists.txt", 1)])),
        ({"CMakeLists.txt": 'set(CMAKE_CUDA_ARCHITECTURES\n  "90a;100a")\n'}, ("others", [("CMakeLists.txt", 1)])),
        ({"CMakeLists.txt": "list(APPEND MY_CUDA_ARCHS 90a 121a)\n"}, ("named", [("CMakeLists.txt", 1)])),
        ({"CMakeLists.txt": "list(REMOVE_ITEM MY_CUDA_ARCHS 120)\n"}, ("unknown", [])),
        ({"CMakeLists.txt": "set(ARCHITECTURE_NOTES 120)\n"}, ("unknown", [])),
    ],
)  # fmt: skip
def test_what_a_project_builds_for(files, expected, tmp_path):
    assert verdict(tmp_path, files) == expected


CMAKE = """cmake_minimum_required(VERSION 3.24)
set(CMAKE_CUDA_ARCHITECTURES OFF)
add_library(hopper k90.cu ${CMAKE_CURRENT_SOURCE_DIR}/both.cu)
add_library(geforce k120.cu both.cu)
set_target_properties(hopper PROPERTIES CUDA_ARCHITECTURES "90a")
set_property(TARGET geforce PROPERTY CUDA_ARCHITECTURES 120a)
set_source_files_properties(alone.cu PROPERTIES COMPILE_OPTIONS "-gencode;arch=compute_100a,code=sm_100a")
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/k90.cu", ("others", [("src/CMakeLists.txt", 5)])),
        ("src/k120.cu", ("named", [("src/CMakeLists.txt", 6)])),
        ("src/alone.cu", ("others", [("src/CMakeLists.txt", 7)])),
        ("include/any.cuh", ("named", [("src/CMakeLists.txt", 6)])),
    ],
)
def test_cmake_tells_files_apart(path, expected, tmp_path):
    assert verdict(tmp_path, {"src/CMakeLists.txt": CMAKE}, path) == expected


def test_a_file_of_two_libraries_is_built_for_both(tmp_path):
    assert verdict(tmp_path, {"src/CMakeLists.txt": CMAKE}, "src/both.cu")[0] == "named"


def test_options_of_a_file_come_beside_the_targets_of_all(tmp_path):
    text = CMAKE.replace("ARCHITECTURES OFF", "ARCHITECTURES 120")
    assert verdict(tmp_path, {"src/CMakeLists.txt": text}, "src/alone.cu")[0] == "named"


def test_a_compilation_database_tells_each_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    entries = [
        {"directory": str(tmp_path), "file": "src/a.cu", "command": "nvcc -arch=sm_90a -c src/a.cu"},
        {"directory": str(tmp_path / "src"), "file": "b.cu", "arguments": ["nvcc", "-arch=sm_120a", "b.cu"]},
        {"directory": str(tmp_path), "file": "src/c.cu", "command": "nvcc -c src/c.cu"},
        "no entry",
    ]
    files = {"compile_commands.json": json.dumps(entries, indent=1)}
    assert verdict(tmp_path, files, "src/a.cu")[0] == "others"
    assert verdict(tmp_path, files, "src/b.cu")[0] == "named"
    assert verdict(tmp_path, files, "src/a.cu", "src/b.cu")[0] == "named"
    assert verdict(tmp_path, files, "src/c.cu")[0] == "unknown"
    assert verdict(tmp_path, {"compile_commands.json": "{"}, "src/a.cu")[0] == "unknown"


@pytest.mark.parametrize(
    ("build", "severity"),
    [
        (None, "error"),
        ({"CMakeLists.txt": "set(CMAKE_CUDA_ARCHITECTURES 90a)"}, "note"),
        ({"CMakeLists.txt": "set(CMAKE_CUDA_ARCHITECTURES 90)"}, "warning"),
        ({"CMakeLists.txt": "set(CMAKE_CUDA_ARCHITECTURES 90 120)"}, "error"),
        ({"third_party/x/CMakeLists.txt": "set(CMAKE_CUDA_ARCHITECTURES 90a)"}, "error"),
        ({"tests/run.py": "'-arch=sm_90a'"}, "error"),
    ],
)
def test_the_build_weighs_a_finding(build, severity, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in {"pull.cu": KERNEL, **(build or {})}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (finding,) = ptxguard.check_paths(["."]).findings
    assert finding.severity.word == severity
    links = [link for link in finding.evidence if link.kind == "build"]
    assert len(links) == 1
    if severity != "error":
        assert (links[0].path, links[0].line) == ("CMakeLists.txt", 1)
        assert "the build names sm_90" in finding.message
    (named,) = ptxguard.check_paths(["."], targets=["sm_120a"]).findings
    assert named.severity.word == "error"  # the user knows better than the build files


def test_shipped_ptx_without_the_copy_is_no_warning(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    guarded = KERNEL.replace("  asm", "#if __CUDA_ARCH__ >= 1000\n  asm").replace("}\n", "#endif\n}\n")
    (tmp_path / "pull.cu").write_text(guarded)
    (tmp_path / "CMakeLists.txt").write_text("set(CMAKE_CUDA_ARCHITECTURES 90)\n")
    (finding,) = ptxguard.check_paths(["."]).findings
    assert finding.severity.word == "note"


@pytest.mark.parametrize(
    ("build", "severity"),
    [
        ("", "warning"),
        ("flags += ['-DWITH_TMA']\n", "error"),
        ("flags += ['-DWITH_TMA=1']\n", "error"),
        ("flags += ['-DWITH_TMA=0']\n", "warning"),
        ("flags += ['-DWITH_TMA_TOO']\n", "warning"),
        ("target_compile_definitions(k PRIVATE OTHER WITH_TMA=2)\n", "error"),
    ],
)
def test_a_macro_that_a_build_defines_decides_a_guard(build, severity, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    guarded = KERNEL.replace("  asm", "#if defined(WITH_TMA) && WITH_TMA\n  asm").replace(
        "}\n", "#endif\n}\n"
    )
    if "TMA'" in build:
        guarded = guarded.replace(" && WITH_TMA", "")
    (tmp_path / "pull.cu").write_text(guarded)
    (tmp_path / "jit.py").write_text(build)
    (finding,) = ptxguard.check_paths(["."]).findings
    assert finding.severity.word == severity
    places = [(link.path, link.line) for link in finding.evidence if "WITH_TMA" in link.text]
    assert (("jit.py", 1) in places) is (severity == "error")
