"""What a name means: its declaration, its type where it stands, and its documentation."""

from mstarc.driver import Inspection
from mstarc.lsp.index import Index, path_at
from mstarc.lsp.words import WORDS
from mstarc.names import Symbol
from mstarc.names.symbols import KIND_WORDS
from mstarc.records import dataclass
from mstarc.source import SourceFile, Span
from mstarc.syntax import ast


@dataclass(frozen=True, slots=True, kw_only=True)
class HoverText:
    """Markdown about the text under `span`."""

    span: Span
    markdown: str


def hover(inspection: Inspection, index: Index, offset: int) -> HoverText | None:
    """What to say about the place at an offset; none where there is nothing to say."""
    if inspection.tree is None:
        return None
    path = path_at(inspection.tree, offset)
    if path and isinstance(path[-1], ast.Name):
        name = path[-1]
        symbol = index.meanings.get(name)
        if symbol is not None:
            code, notes = described(inspection, name, symbol)
            return HoverText(span=name.span, markdown=_markdown(code, notes, doc_of(symbol)))
        field = path[-2] if len(path) > 1 else None
        if isinstance(field, ast.Attr) and field.name is name:
            type_ = _type(inspection, field)
            if type_ is not None:
                text = inspection.source.slice(field.span)
                return HoverText(span=field.span, markdown=_markdown(f"{text}: {type_}", (), None))
    return _word(inspection.source, offset)


def described(
    inspection: Inspection, name: ast.Name, symbol: Symbol
) -> tuple[str, tuple[str, ...]]:
    """A symbol as code, and what else is known of it."""
    code = signature(inspection, symbol)
    typed = inspection.typed
    notes: list[str] = []
    match symbol.kind:
        case "value" | "last":
            type_ = _type(inspection, name) or _type(inspection, symbol.declaration)
            code = f"{symbol.name}: {type_}" if type_ is not None else symbol.name
        case "index":
            code = f"{symbol.name}: int"
            notes.append("loop index, from 0")
        case "part":
            notes.append("a part of the request: `.role`, `.first`, `.last`")
        case "dim":
            notes.append("a free dim: the caller's value says how long it is")
        case "config" if typed is not None and symbol.name in typed.config:
            notes.append(f"is `{_constant(typed.config[symbol.name])}` here")
        case "stream" if typed is not None and symbol.name in typed.streams:
            stream = typed.streams[symbol.name]
            if stream.producer and stream.consumer:
                notes.append(f"from machine `{stream.producer}` to machine `{stream.consumer}`")
        case "node" if isinstance(symbol.node, ast.NodeDecl):
            ops = ", ".join(f"`{op.name.text}`" for op in symbol.node.ops)
            notes.append(f"ops: {ops}" if ops else "it has no ops")
        case "parameter" if name is not symbol.declaration:
            type_ = _type(inspection, name)
            if type_ is not None:
                code = f"{symbol.name}: {type_}"
        case _:
            pass
    return code, tuple(notes)


def signature(inspection: Inspection, symbol: Symbol) -> str:
    """The declaration of a symbol without its body."""
    source = inspection.source
    node = symbol.node
    match node:
        case ast.WalkDecl():
            end = node.body.span.start
            return _line(source.text[node.span.start : end])
        case ast.NodeDecl() | ast.MachineDecl():
            return _line(source.slice(node.span).partition("{")[0])
        case ast.StateDecl():
            return f"state {symbol.name}"
        case ast.OpDecl():
            owner = _owner(inspection, node)
            text = _line(source.slice(node.span))
            return text.replace("op ", f"op {owner}.", 1) if owner else text
        case ast.Name():
            return f"{KIND_WORDS[symbol.kind]} {symbol.name}"
        case ast.Param():
            return _line(source.slice(node.span))
        case ast.For() | ast.Each() | ast.Loop() | ast.Assign() | ast.Arm():
            return symbol.name
        case _:
            return _line(source.slice(node.span))


def doc_of(symbol: Symbol) -> str | None:
    """What the author wrote above a declaration."""
    doc = getattr(symbol.node, "doc", None)
    return doc if isinstance(doc, str) else None


def _owner(inspection: Inspection, op: ast.OpDecl) -> str | None:
    nodes = inspection.tree.all_of(ast.NodeDecl) if inspection.tree is not None else ()
    return next((node.name.text for node in nodes if op in node.ops), None)


def _type(inspection: Inspection, node: ast.Node) -> str | None:
    if inspection.typed is None:
        return None
    type_ = inspection.typed.types.get(node)
    return None if type_ is None or str(type_) == "?" else str(type_)


def _constant(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        shown = ", ".join(map(_constant, value[:8]))
        return f"[{shown}{', …' if len(value) > 8 else ''}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _line(text: str) -> str:
    lines = (line.partition("#")[0] if '"' not in line else line for line in text.splitlines())
    return " ".join(" ".join(lines).split())


def _word(source: SourceFile, offset: int) -> HoverText | None:
    """What a word of the language means."""
    text = source.text
    start = end = offset
    while start and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    while end < len(text) and (text[end].isalnum() or text[end] == "_"):
        end += 1
    line_start = text.rfind("\n", 0, start) + 1
    meaning = WORDS.get(text[start:end])
    if meaning is None or "#" in text[line_start:start]:
        return None
    span = Span(path=source.path, start=start, end=end)
    return HoverText(span=span, markdown=f"`{text[start:end]}`: {meaning}")


def _markdown(code: str, notes: tuple[str, ...], doc: str | None) -> str:
    parts = [f"```mstar\n{code}\n```"]
    if doc:
        parts.append(doc)
    parts.extend(notes)
    return "\n\n".join(parts)
