"""A round through an LSP client: open, edit, diagnostics, hover, code action, jumps, in a server process."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from outkit import SAMPLES
from sourcekit import CLUSTER, copy, kernel

pytest.importorskip("pygls", reason="the extra [lsp] is not installed")

from lsprotocol import types
from pygls.lsp.client import LanguageClient

WAIT_S = 60


class Editor:
    """A client that keeps the diagnostics that the server publishes, by document."""

    def __init__(self):
        self.client = LanguageClient("test", "1")
        self.published = asyncio.Queue()
        self.versions = {}

        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def _published(params):
            self.published.put_nowait(params)

    async def start(self, root):
        await self.client.start_io(sys.executable, "-m", "ptxguard", "lsp", "--gpu", "RTX 5090", cwd=root)
        parameters = types.InitializeParams(
            capabilities=types.ClientCapabilities(), root_uri=root.as_uri(), process_id=os.getpid()
        )
        result = await self.client.initialize_async(parameters)
        self.client.initialized(types.InitializedParams())
        return result.capabilities

    async def stop(self):
        await self.client.shutdown_async(None)
        self.client.exit(None)
        await self.client.stop()

    def open(self, path, text=None):
        self.versions[path] = 1
        document = types.TextDocumentItem(
            path.as_uri(), "cuda", 1, path.read_text("utf-8") if text is None else text
        )
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(document))

    def edit(self, path, text):
        self.versions[path] += 1
        document = types.VersionedTextDocumentIdentifier(self.versions[path], path.as_uri())
        change = types.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))

    def save(self, path):
        document = types.TextDocumentIdentifier(path.as_uri())
        self.client.text_document_did_save(types.DidSaveTextDocumentParams(document))

    async def diagnostics(self, path, version=None):
        """The next diagnostics of a document, of the given version."""
        while True:
            found = await asyncio.wait_for(self.published.get(), WAIT_S)
            if found.uri == path.as_uri() and version in (None, found.version):
                return list(found.diagnostics)

    async def hover(self, path, line):
        position = types.TextDocumentPositionParams(
            types.TextDocumentIdentifier(path.as_uri()), types.Position(line - 1, 10)
        )
        found = await self.client.text_document_hover_async(
            types.HoverParams(position.text_document, position.position)
        )
        return found.contents.value if found is not None else None

    async def actions(self, path, where):
        context = types.CodeActionContext(diagnostics=[])
        document = types.TextDocumentIdentifier(path.as_uri())
        found = await self.client.text_document_code_action_async(
            types.CodeActionParams(document, where, context)
        )
        return list(found or ())

    async def jump(self, path, line):
        found = await self.client.text_document_definition_async(
            types.DefinitionParams(types.TextDocumentIdentifier(path.as_uri()), types.Position(line - 1, 4))
        )
        return [
            (Path(place.uri.rpartition("/")[2]).name, place.range.start.line + 1) for place in found or ()
        ]


def round_trip(root, steps):
    """Run steps with an editor that has a server of its own."""

    async def whole():
        editor = Editor()
        capabilities = await editor.start(root)
        try:
            await steps(editor, capabilities)
        finally:
            await editor.stop()

    asyncio.run(whole())


def applied(text, edits):
    """A text after edits in ASCII lines, the last one first."""
    lines = text.splitlines(keepends=True)
    for edit in sorted(
        edits, key=lambda edit: (edit.range.start.line, edit.range.start.character), reverse=True
    ):
        assert edit.range.start.line == edit.range.end.line
        line = lines[edit.range.start.line]
        lines[edit.range.start.line] = (
            line[: edit.range.start.character] + edit.new_text + line[edit.range.end.character :]
        )
    return "".join(lines)


@pytest.fixture
def tree(tmp_path):
    shutil.copytree(SAMPLES / "quantize", tmp_path / "tree")
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    subprocess.run(["git", "init", "-q", str(tmp_path / "tree")], check=True, timeout=60)
    return tmp_path / "tree"


def test_open_hover_repair_and_edit(tree):
    header = tree / "common/ptx.cuh"

    async def steps(editor, capabilities):
        assert capabilities.hover_provider
        assert capabilities.definition_provider
        editor.open(header)
        (found,) = await editor.diagnostics(header, 1)
        assert (found.code, found.source, found.severity) == (
            "TMA001", "ptxguard", types.DiagnosticSeverity.Error,
        )  # fmt: skip
        assert found.range.start.line + 1 == 45  # samples/MANIFEST.toml
        assert any(item.message.startswith("launch:") for item in found.related_information)

        text = await editor.hover(header, 45)
        assert "**error TMA001**" in text
        assert "| RTX 5090 | 3,382 |" in text
        assert "1. launch [" in text
        assert "address **local**" in text
        assert await editor.hover(header, 1) is None

        (action,) = await editor.actions(header, found.range)
        assert action.is_preferred
        assert action.kind == types.CodeActionKind.QuickFix
        before = header.read_text("utf-8")
        repaired = applied(before, action.edit.changes[header.as_uri()])
        changed = [
            pair
            for pair in zip(before.splitlines(), repaired.splitlines(), strict=True)
            if len(set(pair)) > 1
        ]
        assert [(old.count("shared::cluster"), new.count("shared::cta")) for old, new in changed] == [(1, 1)]

        editor.edit(header, repaired)
        assert await editor.diagnostics(header, 2) == []
        assert await editor.actions(header, found.range) == []
        assert header.read_text("utf-8") == before
        assert "native on sm_120" in await editor.hover(header, 45)

    round_trip(tree, steps)


def test_jumps_lead_to_the_launches_and_back(tree):
    header, source = tree / "common/ptx.cuh", tree / "cast/quantize_fp8.cu"
    lines = source.read_text("utf-8").splitlines()
    launch = next(number for number, line in enumerate(lines, start=1) if "<<<" in line)

    async def steps(editor, _):
        editor.open(header)
        await editor.diagnostics(header, 1)
        places = await editor.jump(header, 45)
        assert ("quantize_fp8.cu", launch) in places
        assert len(places) >= 3
        editor.open(source)
        await editor.diagnostics(source, 1)
        assert await editor.jump(source, launch) == [("ptx.cuh", 45)]
        assert await editor.jump(source, 1) == []

    round_trip(tree, steps)


def test_a_launch_typed_in_one_document_decides_about_another(tmp_path):
    """The callers are searched in the tree, with the texts that are not saved."""
    header, source = tmp_path / "load.cuh", tmp_path / "k.cu"
    header.write_text(
        f"__device__ void load(unsigned dst, const void *src, unsigned bar) {{\n  {copy()}\n}}\n", "utf-8"
    )
    body = kernel("load(peer, src, b);")
    plain = f'#include "load.cuh"\n{body}void run() {{ k<<<1, 32>>>(0, 0); }}\n'
    pair = plain.replace("__global__ void k", "__global__ void __cluster_dims__(2, 1, 1) k")
    source.write_text(pair, "utf-8")

    async def steps(editor, _):
        editor.open(header)
        editor.open(source)
        (found,) = await editor.diagnostics(header, 1)
        assert found.severity == types.DiagnosticSeverity.Warning
        editor.edit(source, plain)
        await editor.diagnostics(source, 2)
        editor.save(source)
        (found,) = await editor.diagnostics(header, 1)
        assert found.severity == types.DiagnosticSeverity.Error
        assert source.read_text("utf-8") == pair

    round_trip(tmp_path, steps)


def test_columns_are_utf16_units_and_broken_text_is_told(tmp_path):
    source = tmp_path / "k.cu"
    source.write_text("int a;\n", "utf-8")
    text = kernel(f"/* \U0001f600\U0001f600 */ {copy('s', 'b')}")
    wanted = next(line for line in text.splitlines() if CLUSTER in line)
    start = len(wanted[: wanted.index(CLUSTER)].encode("utf-16-le")) // 2

    async def steps(editor, _):
        editor.open(source)
        assert await editor.diagnostics(source, 1) == []
        editor.edit(source, text)
        (found,) = await editor.diagnostics(source, 2)
        assert found.range.start.character == start
        assert found.range.end.character == start + len(CLUSTER)
        (action,) = await editor.actions(source, found.range)
        (edit,) = action.edit.changes[source.as_uri()]
        assert edit.range.start.character == start + CLUSTER.index("cluster")
        editor.edit(source, text + "/* never ends")
        codes = {one.code for one in await editor.diagnostics(source, 3)}
        assert codes == {"TMA001", "not-judged"}

    round_trip(tmp_path, steps)


def test_comments_and_configuration_count(tmp_path):
    source = tmp_path / "k.cu"
    text = kernel(copy("s", "b"))
    source.write_text(text, "utf-8")
    (tmp_path / "ptxguard.toml").write_text('[severity]\nTMA001 = "note"\n', "utf-8")

    async def steps(editor, _):
        editor.open(source)
        (found,) = await editor.diagnostics(source, 1)
        assert found.severity == types.DiagnosticSeverity.Information
        comment = "  // ptxguard: ignore[TMA001] measured, stays\n"
        at = text.index("  asm volatile")
        editor.edit(source, text[:at] + comment + text[at:])
        assert await editor.diagnostics(source, 2) == []

    round_trip(tmp_path, steps)


def test_without_the_extra_the_command_says_what_to_install(monkeypatch):
    from click.testing import CliRunner

    from ptxguard.commands.lsp import command
    from ptxguard.errors import ToolError

    monkeypatch.setitem(sys.modules, "pygls", None)
    monkeypatch.delitem(sys.modules, "ptxguard.lsp.server", raising=False)
    monkeypatch.setitem(sys.modules, "pygls.lsp.server", None)
    done = CliRunner().invoke(command, [])
    assert isinstance(done.exception, ToolError)
    assert "pip install 'ptxguard[lsp]'" in str(done.exception)
