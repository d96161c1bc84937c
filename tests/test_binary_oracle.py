"""Every field of kernels compiled here, against cuobjdump and nvdisasm, for eight targets."""

from __future__ import annotations

import re

import pytest

from binkit import compiled, output_of, tool
from ptxguard.binary import sass
from ptxguard.binary.cubin import Cubin
from ptxguard.binary.kernels import read_kernels

pytestmark = [pytest.mark.ptxas, pytest.mark.cuobjdump]

TARGETS = ("80", "90a", "100a", "103a", "120", "120a", "120f", "121a")
USAGE = re.compile(r"Function (\S+):\n\s+REG:(\d+) STACK:(\w+) SHARED:(\d+) LOCAL:\d+ .*?CONSTANT\[0\]:(\d+)")
ATTRIBUTE = re.compile(r"EIATTR_(\w+)\n\tFormat:\tEIFMT_\w+\n(?:\tValue:\t([^\n]*))?")
PLACE = re.compile(r'"([^"]*)", line (\d+)')
INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(.*?) ;", re.MULTILINE)


@pytest.fixture(scope="module", params=[*TARGETS, "80 -rdc=true", "120a -rdc=true", "120a -G", "90a -O0"])
def image(request, tmp_path_factory):
    """A cubin of facts.cu with line information: (path, reader, kernels by name)."""
    arch, *options = request.param.split()
    lines = [] if "-G" in options else ["-lineinfo"]
    path = compiled(
        tmp_path_factory.mktemp("cubin"), "facts.cu", "-cubin", f"-arch=sm_{arch}", *lines, *options
    )
    cubin = Cubin(memoryview(path.read_bytes()))
    return path, cubin, {kernel.name: kernel for kernel in read_kernels(cubin, every=True)}, f"sm_{arch}"


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
    path, _, kernels, _ = image
    usage = {
        name: rest for name, *rest in USAGE.findall(output_of(tool("cuobjdump"), "-res-usage", str(path)))
    }
    assert set(kernels) == set(usage)
    for name, kernel in kernels.items():
        registers, stack, shared, constant = usage[name]
        sizes = (str(kernel.registers), str(kernel.shared_bytes), str(kernel.constant_bytes))
        assert sizes == (registers, shared, constant)
        assert kernel.stack_unknown or str(kernel.stack_bytes) == stack
        assert kernel.stack_unknown or stack != "UNKNOWN"


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
    assert kernels["_Z6printsPi"].stack_unknown in ("", "the image is not linked yet")


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
