"""Definitions, references, and new names."""

import re

from mstarc.diagnostics import Edit
from mstarc.driver import Inspection
from mstarc.lsp.index import Index, name_at
from mstarc.names import Symbol
from mstarc.names.symbols import KIND_WORDS
from mstarc.source import Span
from mstarc.syntax import ast
from mstarc.syntax.words import RESERVED

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*|_[A-Za-z0-9_]+")
# Values of different kinds are seen from one another's places.
_VALUES = frozenset(("config", "input", "option", "let", "table", "parameter", "value", "index"))


def symbol_at(inspection: Inspection, index: Index, offset: int) -> Symbol | None:
    """What the name at an offset means."""
    name = name_at(inspection, offset)
    return index.meanings.get(name) if name is not None else None


def definition(inspection: Inspection, index: Index, offset: int) -> Span | None:
    """Where the name at an offset is introduced."""
    symbol = symbol_at(inspection, index, offset)
    return symbol.declaration.span if symbol is not None else None


def references(
    inspection: Inspection, index: Index, offset: int, *, with_declaration: bool
) -> tuple[Span, ...]:
    """Where the thing at an offset is named."""
    symbol = symbol_at(inspection, index, offset)
    if symbol is None:
        return ()
    names = index.names_of(symbol)
    return tuple(n.span for n in names if with_declaration or n is not symbol.declaration)


def renamed(inspection: Inspection, index: Index, offset: int, new: str) -> tuple[Edit, ...] | str:
    """The edits that give the thing at an offset a new name, or why it can't have it."""
    symbol = symbol_at(inspection, index, offset)
    if symbol is None:
        return "there is no name here that could be another"
    if not _NAME.fullmatch(new):
        return f"`{new}` is not a name: letters, digits and underscores, no digit first"
    if new in RESERVED:
        return f"`{new}` is a word of the language"
    if new == "done" and symbol.kind == "state":
        return "`done` is where every machine ends"
    taken = _taken(symbol, new, inspection, index)
    if taken is not None:
        return f"there is {_article(KIND_WORDS[taken.kind])} `{new}` already"
    if symbol.kind == "dim" and not new[:1].isupper():
        return "a free dim begins with a capital letter"
    return tuple(Edit(span=name.span, text=new) for name in index.names_of(symbol))


def _article(word: str) -> str:
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


def _taken(symbol: Symbol, new: str, inspection: Inspection, index: Index) -> Symbol | None:
    """Another thing of that name that one would take for the other."""
    assert inspection.tree is not None
    around = _around(inspection.tree, symbol)
    for other in index.meanings.values():
        if other is symbol or other.name != new:
            continue
        both_values = symbol.kind in _VALUES and other.kind in _VALUES
        if not both_values and other.kind != symbol.kind:
            continue
        # A name inside another declaration is not seen from this one.
        mine, others = around, _around(inspection.tree, other)
        if mine is None or others is None or mine is others:
            return other
    return None


def _around(tree: ast.Spec, symbol: Symbol) -> ast.Node | None:
    """The walk, machine, node or op that a symbol lives in; none if all see it."""
    place = symbol.declaration.span.start
    for declaration in tree.declarations:
        if not declaration.span.start <= place < declaration.span.end:
            continue
        if symbol.declaration is getattr(declaration, "name", None):
            return None
        if isinstance(declaration, ast.NodeDecl):
            for op in declaration.ops:
                if op.span.start <= place < op.span.end and symbol.declaration is not op.name:
                    return op
            return declaration
        if isinstance(declaration, ast.WalkDecl | ast.MachineDecl | ast.StreamDecl | ast.TableDecl):
            return declaration
    return None
