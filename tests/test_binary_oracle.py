"""Every field of kernels compiled here, against cuobjdump and nvdisasm, for eight targets."""

from __future__ import annotations

import re

import pytest

from binkit import compiled, output_of, tool
from ptxguard.binary import Wish, inventory, sass
from ptxguard.binary.cubin import Cubin
from ptxguard.binary.kernels import read_kernels

pytestmark = [pytest.mark.ptxas, pytest.mark.cuobjdump]

TARGETS = ("80", "90a", "100a", "103a", "120", "120a", "120f", "121a")
USAGE = re.compile(r"Function (\S+):\n\s+REG:(\d+) STACK:(\w+) SHARED:(\d+) LOCAL:\d+ .*?CONSTANT\[0\]:(\d+)")
ATTRIBUTE = re.compile(r"EIATTR_(\w+)\n\tFormat:\tEIFMT_\w+\n(?:\tValue:\t([^\n]*))?")
PLACE = re.compile(r'"([^"]*)", line (\d+)')
INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(.*?) ;", re.MULTILINE)


UNLINKED = tuple(f"{arch} -rdc=true" for arch in ("80", "90a", "103a", "120a", "120f", "121a"))
LINKED = tuple(f"{options} linked" for options in UNLINKED)
DEBUG = ("80 -G", "90a -G", "120a -G", "90a -O0")


@pytest.fixture(scope="module", params=[*TARGETS, *UNLINKED, *LINKED, *DEBUG])
def image(request, tmp_path_factory):
    """A cubin of facts.cu with line information: (path, reader, kernels by name, target)."""
    arch, *options = request.param.split()
    lines = [] if "-G" in options else ["-lineinfo"]
    folder = tmp_path_factory.mktemp("cubin")
    wanted = [option for option in options if option != "linked"]
    path = compiled(folder, "facts.cu", "-cubin", f"-arch=sm_{arch}", *lines, *wanted)
    if "linked" in options:
        path = linked(path, arch)
    cubin = Cubin(memoryview(path.read_bytes()))
    return path, cubin, {kernel.name: kernel for kernel in read_kernels(cubin, every=True)}, f"sm_{arch}"


def linked(path, arch):
    """What nvlink makes of one relocatable image; it goes by the suffix of its input."""
    source, target = path.with_name("one.cubin"), path.with_name("linked.cubin")
    source.write_bytes(path.read_bytes())
    output_of(tool("nvlink"), f"-arch=sm_{arch}", "-o", str(target), str(source))
    return target


def attributes(path):
    """Kernel -> attribute -> printed value, from `cuobjdump -elf`."""
    text = output_of(tool("cuobjdump"), "-elf", str(path))
    blocks = re.split(r"^\.nv\.info\.(\S+)\n", text, flags=re.MULTILINE)
    return {
        name: dict(ATTRIBUTE.findall(re.split(r"^\.", body, maxsplit=1, flags=re.MULTILINE)[0]))
        for name, body in zip(blocks[1::2], blocks[2::2], strict=True)
    }


def numbers(text):
    return tuple(int(word, 16) for word in re.findall(r"\b0x[0-9a-f]+", text or ""))


def test_target_is_the_one_asked_for(image):
    _, cubin, _, target = image
    assert cubin.target == target


def test_registers_stack_shared_and_constant_bank(image):
    path, cubin, kernels, _ = image
    relocatable = cubin.header.relocatable
    usage = {
        name: rest for name, *rest in USAGE.findall(output_of(tool("cuobjdump"), "-res-usage", str(path)))
    }
    assert set(kernels) == set(usage)
    for name, kernel in kernels.items():
        registers, stack, shared, constant = usage[name]
        sizes = (str(kernel.registers), str(kernel.shared_bytes), str(kernel.constant_bytes))
        assert sizes == (registers, shared, constant)
        # cuobjdump prints 0 for every kernel of an image that is not linked.
        assert kernel.stack_unknown or str(kernel.stack_bytes) == stack or relocatable
        assert kernel.stack_unknown or stack != "UNKNOWN"


def test_the_stack_before_linking_is_the_linkers(image):
    path, cubin, kernels, target = image
    if not cubin.header.relocatable:
        pytest.skip("a whole program")
    after = Cubin(memoryview(linked(path, target.removeprefix("sm_")).read_bytes()))
    stacks = {k.name: (k.stack_bytes, k.stack_unknown) for k in read_kernels(after, every=True)}
    assert {k.name: (k.stack_bytes, k.stack_unknown) for k in kernels.values()} == stacks
    assert stacks["_Z6framedPii"][0] >= 512


def test_launch_attributes_and_driver_functions(image):
    path, cubin, kernels, _ = image
    printed = attributes(path)
    for name, kernel in kernels.items():
        shown = printed[name]
        externs = set(re.findall(r"(\w+)\(0x", shown.get("EXTERNS", "")))
        called = {*kernel.externs, *(syscall.name for syscall in kernel.syscalls)}
        # EXTERNS of an image that is not linked holds a kernel's own calls only.
        assert externs <= called if cubin.header.relocatable else externs == called
        assert (kernel.max_threads or ()) == numbers(shown.get("MAX_THREADS"))
        assert (kernel.block_dims or ()) == numbers(shown.get("REQNTID"))
        assert (kernel.cluster_dims or ()) == numbers(shown.get("CTA_PER_CLUSTER"))
        assert kernel.explicit_cluster == ("EXPLICIT_CLUSTER" in shown)
        ranks = numbers(shown.get("MAX_CLUSTER_RANK"))
        assert kernel.max_cluster_rank == (ranks[0] if ranks else None)
        barriers = numbers(shown.get("NUM_BARRIERS"))
        assert kernel.barriers == (barriers[0] if barriers else None)


def disassembled(path):
    """Section of code -> offset -> (instruction, source places innermost first), from `nvdisasm -gi`."""
    text = output_of(tool("nvdisasm"), "-gi", "-c", str(path))
    found = {}
    for block in re.split(r"^\.text\.", text, flags=re.MULTILINE)[1:]:
        name, body = block.split(":\n", 1)
        places, fresh, code = (), True, {}
        for line in body.split("\n"):
            if line.startswith("\t//## File"):
                chain = [(path_, int(number)) for path_, number in PLACE.findall(line)]
                # `inlined at` is repeated by the next line of the same chain.
                places = (*places[:-1], *chain) if not fresh else tuple(chain)
                fresh = False
            elif line.startswith("\t.section"):
                break
            elif match := INSTRUCTION.match(line):
                code[int(match[1], 16)] = (match[2], places)
                fresh = True
        found[name] = code
    return found


def test_source_chain_of_every_instruction(image):
    path, cubin, _, _ = image
    compared = 0
    sections = {name.removeprefix(".text."): index for name, index in text_sections(cubin).items()}
    for name, code in disassembled(path).items():
        for offset, (_, places) in code.items():
            chain = tuple((link.path, link.line) for link in cubin.lines.chain(sections[name], offset, name))
            assert chain == places, (name, hex(offset))
            compared += 1
    assert compared > 150


def test_recursion_and_pointers_are_seen(image):
    _, _, kernels, _ = image
    assert kernels["_Z8recursesPii"].stack_unknown == "recursion"
    assert kernels["_Z6pointsPii"].stack_unknown == "a call through a pointer"
    assert kernels["_Z6printsPi"].stack_unknown == ""


def test_targets_of_relative_calls(image):
    path, cubin, _, _ = image
    if cubin.header.relocatable or not cubin.cloned_functions:
        pytest.skip("calls are relocated, or nothing is called in the kernel's own section")
    symbols = {cubin.symbols.name(i): cubin.symbols.value[i] for i in range(len(cubin.symbols))}
    sections = {name.removeprefix(".text."): index for name, index in text_sections(cubin).items()}
    compared = 0
    for name, code in disassembled(path).items():
        direct, _ = sass.local_calls(cubin.sections.content(sections[name]), cubin.sm)
        for at, target in direct:
            label = re.search(r"`\(([^)]*)\)", code[at][0])[1]
            assert symbols[label] == target, (name, hex(at))
            compared += 1
    assert compared >= 3


def text_sections(cubin):
    names = cubin.sections.names
    found = {}
    for index, at in enumerate(cubin.sections.name):
        name = names[at : names.index(b"\0", at)].decode()
        if name.startswith(".text."):
            found[name] = index
    return found


def test_syscall_sites_are_calls(image):
    path, _, kernels, target = image
    code = disassembled(path)
    sites = [
        (site, s.name) for kernel in kernels.values() for s in kernel.syscalls for site in kernel_sites(s)
    ]
    assert bool(sites) == target.startswith("sm_12")
    for site, _ in sites:
        assert code[site.function][site.offset][0].startswith("CALL.ABS")


def kernel_sites(syscall):
    assert syscall.sites
    return syscall.sites


MODES = ("none", "default", "size", "speed", "balance")


@pytest.mark.parametrize("mode", MODES)
def test_every_compression_mode(tmp_path, mode):
    targets = [
        "-gencode=arch=compute_80,code=sm_80",
        "-gencode=arch=compute_120f,code=[sm_120f,compute_120f]",
    ]
    path = compiled(tmp_path, "facts.cu", "-fatbin", f"--compress-mode={mode}", *targets)
    (artifact,) = (found := inventory(str(path), Wish(every_kernel=True))).artifacts
    assert found.errors == ()
    for flag, kind in (("-lelf", "elf"), ("-lptx", "ptx")):
        listed = re.findall(r"\.(sm_\w+)\.(?:cubin|ptx)", output_of(tool("cuobjdump"), flag, str(path)))
        ours = [image.target.replace("compute", "sm") for image in artifact.images if image.kind == kind]
        # cuobjdump leaves the f of a family target out of its file names.
        assert sorted(name.rstrip("f") for name in ours) == sorted(name.rstrip("f") for name in listed)
    shown = output_of(tool("cuobjdump"), "-res-usage", str(path))
    theirs = sorted((name, int(reg), int(shared)) for name, reg, _, shared, _ in USAGE.findall(shown))
    ours = [(k.name, k.registers, k.shared_bytes) for image in artifact.images for k in image.kernels]
    assert sorted(ours) == theirs
    packed = [image.compressed_bytes < image.bytes for image in artifact.images]
    assert any(packed) == (mode != "none")


@pytest.mark.parametrize("arch", ["90a", "120a"])
def test_device_side_launches_name_the_device_runtime(tmp_path, arch):
    path = compiled(tmp_path, "launches.cu", "-cubin", "-rdc=true", f"-arch=sm_{arch}")
    kernels = {k.name: k for k in read_kernels(Cubin(memoryview(path.read_bytes())), every=True)}
    parent = kernels["_Z6parentPi"]
    # EXTERNS of cuobjdump holds the child too, whose address is passed on: no call, and defined here.
    externs = set(re.findall(r"(\w+)\(0x", attributes(path)[parent.name]["EXTERNS"])) - set(kernels)
    assert set(parent.externs) == externs == {"__cudaCDP2GetParameterBufferV2", "__cudaCDP2LaunchDeviceV2"}
    # Functions of libcudadevrt have frames of their own.
    assert (parent.stack_bytes, parent.stack_unknown) == (None, "the image is not linked yet")
