"""An open deployment file: its findings, what could be written, and what its names mean.

A text that is being written is seldom YAML, so that the place of the cursor is told from the lines
around it: the keys above that stand further left, and the last key on its own line.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from mstarc import driver
from mstarc.deployment import CATALOG as DEVICE_KINDS
from mstarc.deployment import read_deployment
from mstarc.deployment.keys import (
    BACKENDS,
    GROUP,
    KV_CACHE,
    RESOURCES,
    TOP,
    models_of,
    wanted_model,
)
from mstarc.diagnostics import Diagnostic, DiagnosticSink
from mstarc.driver import Inspection
from mstarc.lint.select import Selection
from mstarc.lsp.documents import moved
from mstarc.lsp.hover import HoverText, doc_of, signature
from mstarc.lsp.items import Item, ItemKind
from mstarc.names import Symbol
from mstarc.source import SourceFile, Span
from mstarc.syntax import ast

_NAME = re.compile(r"[\w.-]+")
_KEY_BEFORE = re.compile(r"([A-Za-z_]\w*)[ \t]*:[^:{}\n]*\Z")
_LINE_KEY = re.compile(r"[ \t]*(?:-[ \t]+)*([A-Za-z_]\w*)[ \t]*:")
_KEYS: Mapping[str, Mapping[str, str]] = {
    "": TOP,
    "node_groups": GROUP,
    "kv_cache": KV_CACHE,
    "resources": RESOURCES,
}

FindSpec = Callable[[str], "Inspection | None"]
"""What is known of the spec of a model, or none where no spec is found."""


@dataclass(slots=True)
class DeploymentDocument:
    """One open text. `whole` is what linting with the spec has found, where the lines are now."""

    path: str
    text: str
    find: FindSpec
    whole: tuple[Diagnostic, ...] = ()

    @property
    def source(self) -> SourceFile:
        """The text as it is now."""
        return SourceFile(path=self.path, text=self.text)

    @property
    def spec(self) -> Inspection | None:
        """What is known of the spec of the file's model."""
        wanted = wanted_model(self.source)
        return None if wanted is None else self.find(wanted[0])

    def change(self, text: str) -> None:
        """Take a new text; what was found with the spec moves with its lines."""
        self.whole = moved(self.whole, self.text, text)
        self.text = text

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What is wrong in the text as it is now, with what the spec showed before."""
        sink = DiagnosticSink()
        read_deployment(self.source, sink)
        return sink.diagnostics if sink.has_errors else self.whole

    def lint(self) -> None:
        """Place the spec by the file."""
        spec = self.spec
        if spec is None or any(d.code.startswith("MS01") for d in spec.diagnostics):
            wanted = wanted_model(self.source)
            models = () if spec is None else models_of(spec.source.text)
            known = models if wanted is not None and spec is not None else ()
            self.whole = driver.lint_deployment(self.source, known).diagnostics
            return
        outcome = driver.lint(spec.source, Selection(), deployments=(self.source,))
        self.whole = tuple(d for d in outcome.diagnostics if d.primary.span.path == self.path)


def complete(document: DeploymentDocument, offset: int) -> tuple[Item, ...]:
    """What could be written at an offset."""
    before = document.text[:offset]
    line = before[before.rfind("\n") + 1 :]
    if "#" in line:
        return ()
    within = _keys_above(document.text, offset)
    key = _KEY_BEFORE.search(line)
    if key is not None:
        return tuple(_values(key[1], within, document))
    if _is_item(line) and within[-1:] in (["node_names"], ["graph_walks"]):
        return tuple(_values(within[-1], within[:-1], document))
    if within[-1:] == ["model_kwargs"]:
        return tuple(_config_items(document.spec))
    known = _KEYS.get(within[-1] if within else "")
    if known is None:
        return ()
    return tuple(
        Item(label=name, kind="field", doc=meaning, snippet=f"{name}: ")
        for name, meaning in known.items()
    )


def hover(document: DeploymentDocument, offset: int) -> HoverText | None:
    """What a key or a name means."""
    name = _name_at(document.text, offset)
    if name is None:
        return None
    start, end = name
    text = document.text[start:end]
    span = Span(path=document.path, start=start, end=end)
    within = _keys_above(document.text, start)
    if re.match(r"[ \t]*:", document.text[end:]):
        known = _KEYS.get(within[-1] if within else "", {})
        if text in known:
            return HoverText(span=span, markdown=f"`{text}`: {known[text]}")
    spec = document.spec
    meaning = _meaning(document, start, text, spec)
    if spec is None or meaning is None:
        return None
    parts = [f"```mstar\n{signature(spec, meaning)}\n```"]
    doc = doc_of(meaning)
    return HoverText(span=span, markdown="\n\n".join([*parts, *([doc] if doc else [])]))


def definition(document: DeploymentDocument, offset: int) -> tuple[SourceFile, Span] | None:
    """Where the spec declares what a name of the file means."""
    name = _name_at(document.text, offset)
    spec = document.spec
    if name is None or spec is None:
        return None
    start, end = name
    text = document.text[start:end]
    key = _KEY_BEFORE.search(document.text[document.text.rfind("\n", 0, start) + 1 : start])
    if key is not None and key[1] == "model" and spec.tree is not None:
        return spec.source, spec.tree.model.name.span
    meaning = _meaning(document, start, text, spec)
    return None if meaning is None else (spec.source, meaning.declaration.span)


# Names


def _meaning(
    document: DeploymentDocument, start: int, text: str, spec: Inspection | None
) -> Symbol | None:
    if spec is None or spec.resolved is None:
        return None
    line = document.text[document.text.rfind("\n", 0, start) + 1 : start]
    key = _KEY_BEFORE.search(line)
    within = _keys_above(document.text, start)
    kind = key[1] if key is not None else (within[-1] if within else "")
    if kind == "graph_walks":
        return _by_name(_walks(spec)).get(text)
    if kind == "node_names":
        return _by_name(_nodes(spec)).get(text)
    if within[-1:] == ["model_kwargs"]:
        return _by_name(_config(spec)).get(text)
    return None


def _nodes(spec: Inspection) -> Iterator[tuple[str, Symbol]]:
    """Public names of nodes and contexts; a node's own name comes after those."""
    assert spec.resolved is not None
    symbols = spec.resolved.symbols
    own: list[tuple[str, Symbol]] = []
    for name, symbol in symbols.nodes.items():
        node = symbol.of(ast.NodeDecl)
        yield from ((alias.value, symbol) for alias in node.aliases)
        own.append((name, symbol))
        for context in symbols.members[name].contexts.values():
            declared = context.of(ast.ContextDecl)
            yield from ((alias.value, context) for alias in declared.aliases)
            own.append((f"{name}.{context.name}", context))
    if spec.tree is not None:
        for folded in spec.tree.all_of(ast.FoldedDecl):
            holder = symbols.nodes.get(folded.node.text)
            if holder is not None:
                yield folded.alias.value, holder
    yield from own


def _walks(spec: Inspection) -> Iterator[tuple[str, Symbol]]:
    assert spec.resolved is not None
    walks = spec.resolved.symbols.walks
    for symbol in walks.values():
        yield from ((alias.value, symbol) for alias in symbol.of(ast.WalkDecl).aliases)
    yield from walks.items()


def _config(spec: Inspection) -> Iterator[tuple[str, Symbol]]:
    assert spec.resolved is not None
    for symbol in spec.resolved.symbols.values_of("config"):
        item = symbol.of(ast.ConfigItem)
        yield from ((alias.value, symbol) for alias in item.aliases)
        yield item.name.text, symbol


def _by_name(names: Iterator[tuple[str, Symbol]]) -> dict[str, Symbol]:
    """The first thing that each name means: a public name may mean several nodes."""
    found: dict[str, Symbol] = {}
    for name, symbol in names:
        found.setdefault(name, symbol)
    return found


def _values(key: str, within: list[str], document: DeploymentDocument) -> Iterator[Item]:
    spec = document.spec
    has_names = spec is not None and spec.resolved is not None
    match key:
        case "node_names" if spec is not None and has_names:
            yield from _named(_nodes(spec), "node", spec)
        case "graph_walks" if spec is not None and has_names:
            yield from _named(_walks(spec), "walk", spec)
        case "model" if spec is not None:
            yield from (Item(label=name, kind="value") for name in models_of(spec.source.text))
        case "devices":
            yield from (Item(label=f"2x{kind.name}", kind="value") for kind in DEVICE_KINDS)
        case "flashinfer_backend":
            yield from (Item(label=name, kind="value") for name in BACKENDS)
        case "model_kwargs":
            yield from _config_items(spec)
        case _ if within and key in _KEYS:
            yield from (Item(label=k, kind="field", doc=doc) for k, doc in _KEYS[key].items())
        case _:
            pass


def _named(names: Iterator[tuple[str, Symbol]], kind: ItemKind, spec: Inspection) -> Iterator[Item]:
    for name, symbol in _by_name(names).items():
        yield Item(label=name, kind=kind, detail=signature(spec, symbol), doc=doc_of(symbol))


def _config_items(spec: Inspection | None) -> Iterator[Item]:
    if spec is None or spec.resolved is None:
        return
    for name, symbol in _config(spec):
        detail = signature(spec, symbol)
        yield Item(label=name, kind="field", detail=detail, snippet=f"{name}: ")


# Places


def _is_item(line: str) -> bool:
    return re.match(r"[ \t]*-[ \t]+[\w.-]*\Z", line) is not None


def _name_at(text: str, offset: int) -> tuple[int, int] | None:
    line_start = text.rfind("\n", 0, offset) + 1
    line_end = text.find("\n", offset)
    line = text[line_start : line_end if line_end >= 0 else len(text)]
    comment = line.find("#")
    for found in _NAME.finditer(line):
        start, end = line_start + found.start(), line_start + found.end()
        if start <= offset <= end and (comment < 0 or found.start() < comment):
            return start, end
    return None


def _keys_above(text: str, offset: int) -> list[str]:
    """The keys that hold what stands at an offset, the outermost first."""
    start = text.rfind("\n", 0, offset) + 1
    line_end = text.find("\n", start)
    line = text[start : line_end if line_end >= 0 else len(text)]
    column = len(line) - len(line.lstrip(" "))
    if line.strip() == "":
        column = offset - start
    found: list[str] = []
    inline = re.findall(r"([A-Za-z_]\w*)[ \t]*:[ \t]*[\[{]", text[start:offset])
    is_item = line.lstrip().startswith("-")
    for above in reversed(text[:start].splitlines()):
        match = _LINE_KEY.match(above)
        if match is None or match.start(1) > column:
            continue
        key_column = match.start(1)
        # An item may stand in the column of the key that holds it.
        if key_column < column or is_item:
            if not above[match.end() :].split("#")[0].strip():
                found.append(match[1])
            column, is_item = key_column, False
        if above.lstrip().startswith("-"):
            # What stands beside the first key of an item is held by what holds the item.
            column, is_item = len(above) - len(above.lstrip(" ")), True
    return [*reversed(found), *[key for key in inline if key in _KEYS or key == "model_kwargs"]]
