"""What names stand for."""

from collections.abc import Iterator, Mapping
from typing import Literal, TypeVar

from mstarc.records import dataclass
from mstarc.syntax import ast

SymbolKind = Literal[
    "config",
    "input",
    "output",
    "option",
    "let",
    "table",
    "node",
    "op",
    "context",
    "sampler",
    "stream",
    "mark",
    "walk",
    "machine",
    "state",
    "parameter",
    "value",
    "index",
    "part",
    "last",
    "item",
    "dim",
]

KIND_WORDS: Mapping[SymbolKind, str] = {
    "config": "config value",
    "input": "input",
    "output": "output",
    "option": "option",
    "let": "let",
    "table": "table",
    "node": "node",
    "op": "op",
    "context": "context",
    "sampler": "sampler",
    "stream": "stream",
    "mark": "mark",
    "walk": "walk",
    "machine": "machine",
    "state": "state",
    "parameter": "parameter",
    "value": "value",
    "index": "loop index",
    "part": "part",
    "last": "sign of the last chunk",
    "item": "item",
    "dim": "dim",
}
"""A kind as people say it."""

N = TypeVar("N", bound=ast.Node)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Symbol:
    """One declared thing. `declaration` is its name where it is introduced, `node` the whole.

    A value of a walk or a machine is declared by its first assignment. Symbols are told apart by
    identity.
    """

    kind: SymbolKind
    declaration: ast.Name
    node: ast.Node

    @property
    def name(self) -> str:
        """The name itself."""
        return self.declaration.text

    def of(self, kind: type[N]) -> N:
        """The declaration, which must be of this class."""
        assert isinstance(self.node, kind)
        return self.node


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSymbols:
    """What a node declares."""

    ops: Mapping[str, Symbol]
    contexts: Mapping[str, Symbol]
    samplers: Mapping[str, Symbol]


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbols:
    """All declarations at the top of a spec, by name, in source order.

    `values` are config items, inputs, options, lets and tables: what an expression may name.
    """

    values: Mapping[str, Symbol]
    outputs: Mapping[str, Symbol]
    nodes: Mapping[str, Symbol]
    members: Mapping[str, NodeSymbols]
    streams: Mapping[str, Symbol]
    marks: Mapping[str, Mapping[str, Symbol]]
    walks: Mapping[str, Symbol]
    machines: Mapping[str, Symbol]
    states: Mapping[str, Mapping[str, Symbol]]

    def values_of(self, kind: SymbolKind) -> Iterator[Symbol]:
        """The values of one kind, in source order."""
        return (symbol for symbol in self.values.values() if symbol.kind == kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A spec and what its names mean. A name that is not in `uses` could not be resolved."""

    spec: ast.Spec
    symbols: Symbols
    uses: Mapping[ast.Name, Symbol]

    def meaning(self, name: ast.Name) -> Symbol | None:
        """The symbol that a use means; none where an error was reported."""
        return self.uses.get(name)
