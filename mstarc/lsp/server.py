"""The server: the protocol's requests, each answered by one feature.

A change is inspected at once when nothing else waits, so that a burst of keystrokes is read once;
opinions and what only the whole text shows follow when the author rests.
"""

import asyncio
import contextlib
import gc
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer

from mstarc import __version__, driver
from mstarc.deployment.keys import is_deployment, models_of
from mstarc.diagnostics import Diagnostic, InternalError, Label
from mstarc.driver import Inspection
from mstarc.lsp import actions, complete, deployments, hints, hover, outline, rename, wire
from mstarc.lsp.deployments import DeploymentDocument
from mstarc.lsp.documents import Document
from mstarc.lsp.index import name_at
from mstarc.lsp.items import Item
from mstarc.resources import spec_folders
from mstarc.source import SourceFile, Span

REST_S = 0.35
"""After so long without a keystroke the author rests."""


class Server(LanguageServer):
    """Open documents by address, and what is to be done about them when there is time."""

    def __init__(self) -> None:
        super().__init__("mstarc", __version__)
        self.documents: dict[str, Document] = {}
        self.deployments: dict[str, DeploymentDocument] = {}
        self.specs: dict[str, Document] = {}
        self.soon: dict[str, asyncio.Handle] = {}
        self.later: dict[str, asyncio.TimerHandle] = {}

    def document(self, uri: str) -> Document:
        """An open spec."""
        if uri not in self.documents:
            raise JsonRpcInvalidParams(f"{uri} is not open")
        return self.documents[uri]

    def spec_of(self, path: str, model: str) -> Inspection | None:
        """What is known of the spec of a model: an open one first, else one near a deployment."""
        for document in self.documents.values():
            if model in models_of(document.text):
                return document.inspect()
        near = spec_folders(Path(path))
        for file in (file for folder in near for file in sorted(folder.glob("*.mstar"))):
            text = _read(file)
            if text is None or model not in models_of(text):
                continue
            kept = self.specs.setdefault(str(file), Document(path=str(file), text=text))
            if kept.text != text:
                kept.change(text)
            return kept.inspect()
        return None

    def take(self, uri: str, text: str) -> None:
        """Take a new text, and have it inspected when nothing else waits."""
        if uri in self.open:
            self.open[uri].change(text)
        elif _is_yaml(uri):
            if not is_deployment(text):
                return  # other YAML is for others
            path = _path(uri)
            find = partial(self.spec_of, path)
            self.deployments[uri] = DeploymentDocument(path=path, text=text, find=find)
        else:
            self.documents[uri] = Document(path=_path(uri), text=text)
        loop = asyncio.get_running_loop()
        self.forget_plans(uri)
        self.soon[uri] = loop.call_soon(self.publish, uri)
        self.later[uri] = loop.call_later(REST_S, self.publish_whole, uri)

    @property
    def open(self) -> Mapping[str, Document | DeploymentDocument]:
        """All open documents."""
        return {**self.documents, **self.deployments}

    def publish(self, uri: str) -> None:
        """Tell the editor what is wrong, as far as it is known at once."""
        self._publish(uri, self.open[uri])

    def publish_whole(self, uri: str) -> None:
        """Tell the editor all that is wrong."""
        document = self.open[uri]
        # What fails here fails in `_publish` as well, which says so.
        with contextlib.suppress(InternalError):
            document.lint()
        self._publish(uri, document)

    def _publish(self, uri: str, document: Document | DeploymentDocument) -> None:
        source = document.source
        try:
            found = document.diagnostics
        except InternalError as error:
            # The author's next keystroke may be one that we can bear.
            found = (_our_mistake(error, source),)
        self.text_document_publish_diagnostics(
            lsp.PublishDiagnosticsParams(
                uri=uri,
                version=self.workspace.get_text_document(uri).version,
                diagnostics=[wire.diagnostic(finding, source, uri) for finding in found],
            )
        )

    def uri_of(self, source: SourceFile) -> str:
        """The address of a spec, open or not."""
        for uri, document in self.documents.items():
            if document.path == source.path:
                return uri
        return Path(source.path).absolute().as_uri()

    def forget_plans(self, uri: str) -> None:
        """Do nothing later about a document."""
        for plans in (self.soon, self.later):
            if uri in plans:
                plans.pop(uri).cancel()

    def close(self, uri: str) -> None:
        """Forget a document; its findings go with it."""
        self.forget_plans(uri)
        self.documents.pop(uri, None)
        self.deployments.pop(uri, None)
        self.text_document_publish_diagnostics(
            lsp.PublishDiagnosticsParams(uri=uri, diagnostics=[])
        )


def serve() -> None:
    """Answer one editor over stdin and stdout, until it says goodbye."""
    server = make_server()
    # What is loaded by now stays: a collection need not look at it again.
    gc.collect()
    gc.freeze()
    server.start_io()


def make_server() -> Server:
    """A server that knows every feature."""
    server = Server()

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def did_open(ls: Server, params: lsp.DidOpenTextDocumentParams) -> None:
        ls.take(params.text_document.uri, params.text_document.text)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(ls: Server, params: lsp.DidChangeTextDocumentParams) -> None:
        uri = params.text_document.uri
        ls.take(uri, ls.workspace.get_text_document(uri).source)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    def did_save(ls: Server, params: lsp.DidSaveTextDocumentParams) -> None:
        uri = params.text_document.uri
        if uri in ls.open:
            ls.forget_plans(uri)
            ls.publish_whole(uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(ls: Server, params: lsp.DidCloseTextDocumentParams) -> None:
        ls.close(params.text_document.uri)

    _add_questions(server)
    _add_changes(server)
    return server


def _add_questions(server: Server) -> None:
    """What an editor asks and changes nothing."""

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def on_hover(ls: Server, params: lsp.HoverParams) -> lsp.Hover | None:
        if _is_yaml(params.text_document.uri):
            deployment = ls.deployments.get(params.text_document.uri)
            if deployment is None:
                return None
            offset = wire.offset_of(deployment.source, params.position)
            said = deployments.hover(deployment, offset)
            return None if said is None else wire.hover(said, deployment.source)
        document = ls.document(params.text_document.uri)
        inspection = document.inspect()
        offset = wire.offset_of(document.source, params.position)
        found = hover.hover(inspection, document.index, offset)
        return None if found is None else wire.hover(found, document.source)

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def on_definition(ls: Server, params: lsp.DefinitionParams) -> lsp.Location | None:
        if _is_yaml(params.text_document.uri):
            deployment = ls.deployments.get(params.text_document.uri)
            if deployment is None:
                return None
            offset = wire.offset_of(deployment.source, params.position)
            meant = deployments.definition(deployment, offset)
            if meant is None:
                return None
            spec, place = meant
            return lsp.Location(uri=ls.uri_of(spec), range=wire.range_of(spec, place))
        document = ls.document(params.text_document.uri)
        inspection = document.inspect()
        offset = wire.offset_of(document.source, params.position)
        span = rename.definition(inspection, document.index, offset)
        if span is None:
            return None
        range_ = wire.range_of(document.source, span)
        return lsp.Location(uri=params.text_document.uri, range=range_)

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    def on_references(ls: Server, params: lsp.ReferenceParams) -> list[lsp.Location]:
        if _is_yaml(params.text_document.uri):
            return []
        document = ls.document(params.text_document.uri)
        inspection = document.inspect()
        spans = rename.references(
            inspection,
            document.index,
            wire.offset_of(document.source, params.position),
            with_declaration=params.context.include_declaration,
        )
        uri = params.text_document.uri
        return [lsp.Location(uri=uri, range=wire.range_of(document.source, s)) for s in spans]

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    def on_highlight(
        ls: Server, params: lsp.DocumentHighlightParams
    ) -> list[lsp.DocumentHighlight]:
        if _is_yaml(params.text_document.uri):
            return []
        document = ls.document(params.text_document.uri)
        inspection = document.inspect()
        offset = wire.offset_of(document.source, params.position)
        spans = rename.references(inspection, document.index, offset, with_declaration=True)
        return [lsp.DocumentHighlight(range=wire.range_of(document.source, s)) for s in spans]

    @server.feature(
        lsp.TEXT_DOCUMENT_COMPLETION,
        lsp.CompletionOptions(trigger_characters=[".", " ", "(", "[", ","]),
    )
    def on_completion(ls: Server, params: lsp.CompletionParams) -> lsp.CompletionList:
        if _is_yaml(params.text_document.uri):
            deployment = ls.deployments.get(params.text_document.uri)
            if deployment is None:
                return _completions(())
            offset = wire.offset_of(deployment.source, params.position)
            return _completions(deployments.complete(deployment, offset))
        document = ls.document(params.text_document.uri)
        source = document.source
        offset = wire.offset_of(source, params.position)
        # The text before the last keystroke still knows the names: no need to wait.
        return _completions(complete.complete(document.latest, document.index, source, offset))

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def on_symbols(ls: Server, params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        if _is_yaml(params.text_document.uri):
            return []
        document = ls.document(params.text_document.uri)
        tree = document.inspect().tree
        source = document.source
        entries = outline.outline(tree, source) if tree is not None else ()
        return [wire.symbol(entry, source) for entry in entries]

    @server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
    def on_hints(ls: Server, params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
        if _is_yaml(params.text_document.uri):
            return []
        document = ls.document(params.text_document.uri)
        inspection = document.inspect()
        within = wire.span_of(document.source, params.range)
        return [wire.hint(found, document.source) for found in hints.hints(inspection, within)]


def _add_changes(server: Server) -> None:
    """What changes a text: formatting, new names, fixes."""

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def on_formatting(ls: Server, params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
        if _is_yaml(params.text_document.uri):
            return []
        document = ls.document(params.text_document.uri)
        source = document.source
        text = (driver.format_spec(source).files or {}).get(source.path, source.text)
        if text == source.text:
            return []
        whole = Span(path=source.path, start=0, end=len(source.text))
        return [lsp.TextEdit(range=wire.range_of(source, whole), new_text=text)]

    @server.feature(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
    def on_prepare(
        ls: Server, params: lsp.PrepareRenameParams
    ) -> lsp.PrepareRenamePlaceholder | None:
        if _is_yaml(params.text_document.uri):
            return None
        document = ls.document(params.text_document.uri)
        inspection = document.inspect()
        offset = wire.offset_of(document.source, params.position)
        name = name_at(inspection, offset)
        if name is None or name not in document.index.meanings:
            return None
        range_ = wire.range_of(document.source, name.span)
        return lsp.PrepareRenamePlaceholder(range=range_, placeholder=name.text)

    @server.feature(lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
    def on_rename(ls: Server, params: lsp.RenameParams) -> lsp.WorkspaceEdit:
        document = ls.document(params.text_document.uri)
        inspection = document.inspect()
        offset = wire.offset_of(document.source, params.position)
        found = rename.renamed(inspection, document.index, offset, params.new_name)
        if isinstance(found, str):
            raise JsonRpcInvalidParams(found)
        edits = wire.edits(found, document.source)
        return lsp.WorkspaceEdit(changes={params.text_document.uri: edits})

    kinds = [lsp.CodeActionKind.QuickFix, lsp.CodeActionKind.SourceFixAll]

    @server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions(code_action_kinds=kinds))
    def on_actions(ls: Server, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        uri = params.text_document.uri
        if _is_yaml(uri) and uri not in ls.deployments:
            return []
        document = ls.open.get(uri) or ls.document(uri)
        source, found = document.source, document.diagnostics
        within = wire.span_of(source, params.range)
        only = params.context.only
        answers = []
        if only is None or lsp.CodeActionKind.QuickFix in only:
            kind = lsp.CodeActionKind.QuickFix
            chosen = actions.actions(source, found, within)
            answers += [wire.action(action, source, uri, kind) for action in chosen]
        every = actions.fix_all(source, found)
        if every is not None and (only is None or any(k.startswith("source") for k in only)):
            answers.append(wire.action(every, source, uri, lsp.CodeActionKind.SourceFixAll))
        return answers


def _completions(items: Sequence[Item]) -> lsp.CompletionList:
    return lsp.CompletionList(
        is_incomplete=False,
        items=[wire.completion(item, order) for order, item in enumerate(items)],
    )


def _is_yaml(uri: str) -> bool:
    """Whether a document is YAML: a deployment, or nothing of ours."""
    return uri.endswith((".yaml", ".yml"))


def _read(file: Path) -> str | None:
    """The text of a spec that is not open; none where it cannot be read."""
    try:
        return file.read_text(encoding="utf-8-sig").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError):
        return None


def _our_mistake(error: InternalError, source: SourceFile) -> Diagnostic:
    """What is shown where the compiler fails."""
    return Diagnostic(
        code="MS0900",
        message="the compiler failed, not your spec",
        primary=Label(span=error.span or Span(path=source.path, start=0, end=0)),
        notes=(f"it happened in the stage `{error.stage}`: {error}",),
        helps=("report it with the spec and the output of the language server",),
    )


def _path(uri: str) -> str:
    """The path in an address, for messages; the address itself where it names no file."""
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" else uri
