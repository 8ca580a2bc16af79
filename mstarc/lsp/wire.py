"""Answers of the features as the protocol's types."""

from collections.abc import Sequence
from types import MappingProxyType

from lsprotocol import types as lsp

from mstarc.diagnostics import CATALOG, Diagnostic, Edit, Label
from mstarc.lsp.actions import Action
from mstarc.lsp.hints import Hint
from mstarc.lsp.hover import HoverText
from mstarc.lsp.items import Item
from mstarc.lsp.outline import Entry
from mstarc.lsp.positions import Place, offset_at, place_at, places_of
from mstarc.source import SourceFile, Span

_SYMBOLS = MappingProxyType(
    {
        "config": lsp.SymbolKind.Namespace,
        "request": lsp.SymbolKind.Interface,
        "value": lsp.SymbolKind.Constant,
        "node": lsp.SymbolKind.Class,
        "op": lsp.SymbolKind.Method,
        "stream": lsp.SymbolKind.Event,
        "walk": lsp.SymbolKind.Function,
        "machine": lsp.SymbolKind.Module,
        "state": lsp.SymbolKind.EnumMember,
        "context": lsp.SymbolKind.Field,
    }
)
_ITEMS = MappingProxyType(
    {
        "word": lsp.CompletionItemKind.Keyword,
        "value": lsp.CompletionItemKind.Variable,
        "node": lsp.CompletionItemKind.Class,
        "op": lsp.CompletionItemKind.Method,
        "stream": lsp.CompletionItemKind.Event,
        "walk": lsp.CompletionItemKind.Function,
        "state": lsp.CompletionItemKind.EnumMember,
        "type": lsp.CompletionItemKind.TypeParameter,
        "output": lsp.CompletionItemKind.Interface,
        "field": lsp.CompletionItemKind.Field,
        "function": lsp.CompletionItemKind.Function,
    }
)


def offset_of(source: SourceFile, position: lsp.Position) -> int:
    """The offset of a position."""
    return offset_at(source, Place(position.line, position.character))


def span_of(source: SourceFile, range_: lsp.Range) -> Span:
    """The span of a range."""
    start, end = offset_of(source, range_.start), offset_of(source, range_.end)
    return Span(path=source.path, start=start, end=end)


def position_of(source: SourceFile, offset: int) -> lsp.Position:
    """The position of an offset."""
    place = place_at(source, offset)
    return lsp.Position(line=place.line, character=place.character)


def range_of(source: SourceFile, span: Span) -> lsp.Range:
    """The range of a span."""
    start, end = places_of(source, span)
    return lsp.Range(
        start=lsp.Position(line=start.line, character=start.character),
        end=lsp.Position(line=end.line, character=end.character),
    )


def diagnostic(found: Diagnostic, source: SourceFile, uri: str) -> lsp.Diagnostic:
    """A finding with its other places; notes and helps stand below the headline."""
    entry = CATALOG[found.code]
    severity = (
        lsp.DiagnosticSeverity.Error
        if entry.severity == "error"
        else lsp.DiagnosticSeverity.Warning
    )
    why = f": {found.primary.text}" if found.primary.text else ""
    lines = [f"{found.message}{why}"]
    lines += [f"note: {note}" for note in found.notes]
    lines += [f"help: {text}" for text in found.helps]
    return lsp.Diagnostic(
        range=range_of(source, found.primary.span),
        message="\n".join(lines),
        severity=severity,
        code=found.code,
        source="mstarc",
        related_information=[_related(label, source, uri) for label in found.labels if label.text],
    )


def _related(label: Label, source: SourceFile, uri: str) -> lsp.DiagnosticRelatedInformation:
    place = lsp.Location(uri=uri, range=range_of(source, label.span))
    return lsp.DiagnosticRelatedInformation(location=place, message=label.text)


def hover(text: HoverText, source: SourceFile) -> lsp.Hover:
    """A hover."""
    contents = lsp.MarkupContent(kind=lsp.MarkupKind.Markdown, value=text.markdown)
    return lsp.Hover(contents=contents, range=range_of(source, text.span))


def edits(changes: Sequence[Edit], source: SourceFile) -> list[lsp.TextEdit]:
    """Edits of one document."""
    return [lsp.TextEdit(range=range_of(source, e.span), new_text=e.text) for e in changes]


def action(found: Action, source: SourceFile, uri: str, kind: lsp.CodeActionKind) -> lsp.CodeAction:
    """A code action."""
    diagnostics = [diagnostic(found.finding, source, uri)] if found.finding is not None else None
    return lsp.CodeAction(
        title=found.title,
        kind=kind,
        diagnostics=diagnostics,
        is_preferred=found.is_preferred or None,
        edit=lsp.WorkspaceEdit(changes={uri: edits(found.edits, source)}),
    )


def symbol(entry: Entry, source: SourceFile) -> lsp.DocumentSymbol:
    """A document symbol with those in it."""
    return lsp.DocumentSymbol(
        name=entry.name,
        kind=_SYMBOLS[entry.kind],
        detail=entry.detail,
        range=range_of(source, entry.span),
        selection_range=range_of(source, entry.name_span),
        children=[symbol(inner, source) for inner in entry.inner],
    )


def hint(found: Hint, source: SourceFile) -> lsp.InlayHint:
    """An inlay hint with a type."""
    return lsp.InlayHint(
        position=position_of(source, found.offset),
        label=found.text,
        kind=lsp.InlayHintKind.Type,
        padding_left=False,
    )


def completion(item: Item, order: int) -> lsp.CompletionItem:
    """A completion item; `order` keeps the feature's order."""
    has_holes = item.snippet is not None and "$" in item.snippet
    return lsp.CompletionItem(
        label=item.label,
        kind=_ITEMS[item.kind],
        detail=item.detail or None,
        documentation=item.doc,
        sort_text=f"{order:04}",
        insert_text=item.snippet,
        insert_text_format=lsp.InsertTextFormat.Snippet if has_holes else None,
    )
