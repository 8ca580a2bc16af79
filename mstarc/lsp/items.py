"""What a completion offers, one by one."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

from mstarc.driver import Inspection
from mstarc.lsp.hover import doc_of, signature
from mstarc.lsp.index import Index
from mstarc.lsp.words import WORDS
from mstarc.names import Symbol
from mstarc.names.symbols import KIND_WORDS
from mstarc.records import dataclass
from mstarc.syntax import ast

ItemKind: TypeAlias = Literal[
    "word", "value", "node", "op", "stream", "walk", "state", "type", "output", "field", "function"
]

_SNIPPETS = MappingProxyType(
    {
        "fixed": "fixed(${1:1})",
        "sliding": "sliding(window = ${1:28}, stride = ${2:7})",
        "left_context": "left_context(chunk = ${1:25}, context = ${2:25})",
        "until": "until(${1:item in ends}, max = ${2:64})",
        "pad": "pad(${1:0})",
        "frames": "frames(${1:n})",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Something that could be written; `snippet` has places to fill in."""

    label: str
    kind: ItemKind
    detail: str = ""
    doc: str | None = None
    snippet: str | None = None


_KINDS: Mapping[str, ItemKind] = MappingProxyType(
    {
        "node": "node",
        "op": "op",
        "stream": "stream",
        "walk": "walk",
        "state": "state",
        "machine": "state",
        "output": "output",
    }
)


def item_of(symbol: Symbol, inspection: Inspection, index: Index | None = None) -> Item:
    """A symbol as it is written: a call with its arguments to fill in. `index` gives types."""
    snippet = None
    node = symbol.node
    if symbol.kind in ("op", "walk") and isinstance(node, ast.OpDecl | ast.WalkDecl):
        names = [param.name.text for param in node.params if param.default is None]
        holes = ", ".join(f"${{{number}:{name}}}" for number, name in enumerate(names, 1))
        snippet = f"{symbol.name}({holes})"
    detail = KIND_WORDS[symbol.kind]
    if symbol.kind in ("op", "walk", "node", "config", "option", "input", "output", "stream"):
        detail = signature(inspection, symbol)
    elif index is not None and inspection.typed is not None:
        types = inspection.typed.types
        names_of = index.names_of(symbol)
        type_ = next((types[name] for name in names_of if name in types), None)
        detail = str(type_) if type_ is not None else detail
    return Item(
        label=symbol.name,
        kind=_KINDS.get(symbol.kind, "value"),
        detail=detail,
        doc=doc_of(symbol),
        snippet=snippet,
    )


def word_item(word: str) -> Item:
    """A word that only this place takes."""
    return Item(label=word, kind="word", doc=WORDS.get(word), snippet=_SNIPPETS.get(word))
