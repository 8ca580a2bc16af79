"""The symbols of a document: what it declares, as a tree."""

from typing import Literal, TypeAlias

from mstarc.records import dataclass
from mstarc.source import SourceFile, Span
from mstarc.syntax import ast

EntryKind: TypeAlias = Literal[
    "config", "request", "value", "node", "op", "stream", "walk", "machine", "state", "context"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One declaration; `name_span` lies inside `span`."""

    name: str
    kind: EntryKind
    detail: str
    span: Span
    name_span: Span
    inner: tuple["Entry", ...] = ()


def outline(tree: ast.Spec, source: SourceFile) -> tuple[Entry, ...]:
    """The declarations of a spec, in its order."""
    return tuple(_entry(declaration, source) for declaration in tree.declarations)


def _entry(node: ast.Decl, source: SourceFile) -> Entry:
    match node:
        case ast.ConfigDecl(items=items):
            inner = tuple(_named(item, item.name, "value", source) for item in items)
            return _titled(node, "config", "config", inner)
        case ast.RequestDecl(fields=fields):
            inner = tuple(_named(item, item.name, "value", source) for item in fields)
            return _titled(node, "request", "request", inner)
        case ast.NodeDecl(name=name, engine=engine, ops=ops):
            inner = tuple(_named(op, op.name, "op", source) for op in ops)
            return _named(node, name, "node", source, engine.text, inner)
        case ast.StreamDecl(name=name, item=item):
            return _named(node, name, "stream", source, _text(item, source))
        case ast.WalkDecl(name=name, params=params):
            given = ", ".join(_text(param, source) for param in params)
            return _named(node, name, "walk", source, f"({given})")
        case ast.MachineDecl(name=name, states=states):
            inner = tuple(_named(s, s.name, "state", source, "") for s in states)
            return _named(node, name, "machine", source, "", inner)
        case ast.Let(name=name) | ast.TableDecl(name=name):
            return _named(node, name, "value", source)
        case ast.NeedDecl():
            return _titled(node, "need", "value", (), _text(node.condition, source))
        case ast.VariantDecl(name=title):
            return _titled(node, f"variant {title.value}", "value", ())
        case ast.FoldedDecl(alias=alias):
            return _titled(node, f"folded {alias.value}", "value", ())


def _text(node: ast.Node, source: SourceFile) -> str:
    return " ".join(source.slice(node.span).split())


def _named(
    node: ast.Node,
    name: ast.Name,
    kind: EntryKind,
    source: SourceFile,
    detail: str | None = None,
    inner: tuple[Entry, ...] = (),
) -> Entry:
    if detail is None:
        after = Span(path=node.span.path, start=name.span.end, end=node.span.end)
        detail = " ".join(source.slice(after).split())
    return Entry(
        name=name.text,
        kind=kind,
        detail=detail,
        span=node.span,
        name_span=name.span,
        inner=inner,
    )


def _titled(
    node: ast.Node, title: str, kind: EntryKind, inner: tuple[Entry, ...], detail: str = ""
) -> Entry:
    first_word = Span(
        path=node.span.path,
        start=node.span.start,
        end=min(node.span.end, node.span.start + len(title.split()[0])),
    )
    return Entry(
        name=title, kind=kind, detail=detail, span=node.span, name_span=first_word, inner=inner
    )
