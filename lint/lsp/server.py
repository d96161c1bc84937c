"""The server itself: requests of the editor to judgements, and these to answers."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from ptxguard import __version__
from ptxguard.lsp.diagnostics import code_actions, diagnostics
from ptxguard.lsp.hover import hover_text
from ptxguard.lsp.jumps import copies_of, launches_of
from ptxguard.lsp.places import Places
from ptxguard.lsp.session import Session
from ptxguard.output.report import Report
from ptxguard.source.tree import shown_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from ptxguard.lsp.session import Settings

# Typing is followed when it pauses: a judgement reads the tree and takes longer than a keystroke.
PAUSE_S = 0.3


class Server(LanguageServer):
    """Judges each open document when it is opened, changed or saved, in a thread beside the protocol.

    Attributes:
        settings: what is asked of every judgement.
        session: texts and judgements; the root is known once the editor has told it.
        reports: URI -> the last report.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__("ptxguard", __version__)
        self.settings = settings
        self.session = Session(settings, ".")
        self.reports: dict[str, Report] = {}
        self._waiting: dict[str, asyncio.Task[None]] = {}
        # One thread: judgements are pure Python, two would only slow each other down.
        self._judging = ThreadPoolExecutor(max_workers=1)

    def look_again(self, uri: str, pause_s: float = 0.0) -> None:
        """Judge a document soon; the answer to an earlier wish for the same document is dropped."""
        earlier = self._waiting.pop(uri, None)
        if earlier is not None:
            earlier.cancel()
        self._waiting[uri] = asyncio.get_running_loop().create_task(self._judge(uri, pause_s))

    def forget(self, uri: str) -> None:
        """A document was closed."""
        task = self._waiting.pop(uri, None)
        if task is not None:
            task.cancel()
        self.reports.pop(uri, None)
        self.session.drop_text(path_of(uri))
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    async def _judge(self, uri: str, pause_s: float) -> None:
        await asyncio.sleep(pause_s)
        version = self.workspace.get_text_document(uri).version
        path, texts = path_of(uri), dict(self.session.texts)
        try:
            report = await self.in_thread(lambda: self.session.judge(path, texts))
        except Exception as error:  # the next text may be judged again; the editor shows what happened
            text = f"{path} could not be judged: {type(error).__name__}: {error}"
            self.window_log_message(types.LogMessageParams(types.MessageType.Error, text))
            return
        self.reports[uri] = report
        found = diagnostics(shown_path(path), self.places(report))
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found, version))

    async def in_thread(self, work: Callable[[], Report]) -> Report:
        """Run a judgement beside the protocol."""
        return await asyncio.get_running_loop().run_in_executor(self._judging, work)

    def places(self, report: Report) -> Places:
        """Positions of a report in the units of the client."""
        return Places(report, self.workspace.position_codec)

    def report(self, uri: str) -> Report:
        """The last report about a document; an empty one before the first."""
        return self.reports.get(uri, Report())


def path_of(uri: str) -> str:
    """File system path of a URI; the URI itself where it names no file."""
    return to_fs_path(uri) or uri


def make_server(settings: Settings) -> Server:
    """A server with all its features; `start_io()` runs it."""
    server = Server(settings)
    server.feature(types.INITIALIZED)(_initialized)
    server.feature(types.TEXT_DOCUMENT_DID_OPEN)(_opened)
    server.feature(types.TEXT_DOCUMENT_DID_CHANGE)(_changed)
    server.feature(types.TEXT_DOCUMENT_DID_SAVE)(_saved)
    server.feature(types.TEXT_DOCUMENT_DID_CLOSE)(_closed)
    server.feature(types.TEXT_DOCUMENT_HOVER)(_hover)
    kinds = types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix])
    server.feature(types.TEXT_DOCUMENT_CODE_ACTION, kinds)(_code_action)
    server.feature(types.TEXT_DOCUMENT_DEFINITION)(_definition)
    return server


def _initialized(server: Server, _: types.InitializedParams) -> None:
    root = server.workspace.root_path
    if root:
        server.session = Session(server.settings, root)


def _take_text(server: Server, uri: str) -> None:
    server.session.set_text(path_of(uri), server.workspace.get_text_document(uri).source)


async def _opened(server: Server, params: types.DidOpenTextDocumentParams) -> None:
    _take_text(server, params.text_document.uri)
    server.look_again(params.text_document.uri)


async def _changed(server: Server, params: types.DidChangeTextDocumentParams) -> None:
    _take_text(server, params.text_document.uri)
    server.look_again(params.text_document.uri, PAUSE_S)


async def _saved(server: Server, _: types.DidSaveTextDocumentParams) -> None:
    """A launch in one document may decide about another: look at all that are open."""
    server.session.forget_tree()
    for uri in list(server.workspace.text_documents):
        server.look_again(uri)


async def _closed(server: Server, params: types.DidCloseTextDocumentParams) -> None:
    server.forget(params.text_document.uri)


def _hover(server: Server, params: types.HoverParams) -> types.Hover | None:
    uri = params.text_document.uri
    text = hover_text(server.report(uri), shown_path(path_of(uri)), params.position.line + 1)
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text)) if text else None


def _code_action(server: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
    uri = params.text_document.uri
    return code_actions(shown_path(path_of(uri)), params.range, server.places(server.report(uri)))


async def _definition(server: Server, params: types.DefinitionParams) -> list[types.Location]:
    """From a copy to its launches; from anything else on the way to the copies, for which all are judged."""
    uri, line = params.text_document.uri, params.position.line + 1
    path, report = shown_path(path_of(uri)), server.report(uri)
    found = launches_of(report.sites, path, line)
    if found is None:
        texts = dict(server.session.texts)
        report = await server.in_thread(lambda: server.session.judge_tree(texts))
        found = copies_of(report.sites, path, line)
    places = server.places(report)
    return [places.location(other, number) for other, number in found]
