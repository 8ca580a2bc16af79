"""Which name stands at a place, and where else its symbol is named."""

from collections.abc import Iterator, Mapping

from mstarc.driver import Inspection
from mstarc.names import Resolved, Symbol
from mstarc.records import dataclass
from mstarc.syntax import ast


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """All names of a spec that mean something, declarations and uses."""

    meanings: Mapping[ast.Name, Symbol]

    def names_of(self, symbol: Symbol) -> tuple[ast.Name, ...]:
        """Where a symbol is named, the declaration too, in the order of the text."""
        found = [name for name, meaning in self.meanings.items() if meaning is symbol]
        return tuple(sorted(found, key=lambda name: name.span.start))


def index_of(inspection: Inspection) -> Index:
    """The index of what was resolved."""
    if inspection.resolved is None or inspection.tree is None:
        return Index(meanings={})
    resolved = inspection.resolved
    meanings = {symbol.declaration: symbol for symbol in declared(resolved)}
    # The item of a chunk policy has no place of its own in the text.
    meanings |= {name: symbol for name, symbol in resolved.uses.items() if symbol.kind != "item"}
    for call in ast.descendants(inspection.tree):
        if isinstance(call, ast.OpCall | ast.RunCall):
            meanings |= _named_arguments(call, resolved)
    for walk in inspection.tree.all_of(ast.WalkDecl):
        meanings |= _results(walk, meanings)
    return Index(meanings=meanings)


def declared(resolved: Resolved) -> Iterator[Symbol]:
    """Every symbol that a declaration at the top makes, with its members."""
    symbols = resolved.symbols
    for table in (symbols.values, symbols.outputs, symbols.nodes, symbols.streams):
        yield from table.values()
    for members in symbols.members.values():
        for table in (members.ops, members.contexts, members.samplers):
            yield from table.values()
    for inner in (*symbols.marks.values(), *symbols.states.values()):
        yield from inner.values()
    for table in (symbols.walks, symbols.machines):
        yield from table.values()


def _named_arguments(call: ast.OpCall | ast.RunCall, resolved: Resolved) -> dict[ast.Name, Symbol]:
    """`last` in `lm.text(ids, last = true)` is the op's parameter."""
    named = [arg.name for arg in call.args if arg.name is not None]
    if not named:
        return {}
    target = call.target.op if isinstance(call, ast.OpCall) else call.walk
    symbol = resolved.meaning(target)
    if symbol is None or not isinstance(symbol.node, ast.OpDecl | ast.WalkDecl):
        return {}
    parameters = {param.name.text: param.name for param in symbol.node.params}
    found = {}
    for name in named:
        meaning = resolved.uses.get(parameters[name.text]) if name.text in parameters else None
        if meaning is not None:
            found[name] = meaning
    return found


def _results(walk: ast.WalkDecl, meanings: Mapping[ast.Name, Symbol]) -> dict[ast.Name, Symbol]:
    """A result of a walk is the value of that name in its body."""
    names = {result.name.text: result.name for result in walk.results}
    found = {}
    for node in ast.descendants(walk) if names else ():
        if isinstance(node, ast.Name) and node in meanings and node.text in names:
            symbol = meanings[node]
            if symbol.kind in ("parameter", "value"):
                found[names[node.text]] = symbol
    return found


def path_at(tree: ast.Node, offset: int) -> tuple[ast.Node, ...]:
    """The nodes around an offset, the whole first; a name that touches it wins over others."""
    best: tuple[ast.Node, ...] = ()
    waiting: list[tuple[ast.Node, ...]] = [(tree,)]
    while waiting:
        path = waiting.pop()
        if isinstance(path[-1], ast.Name):
            return path
        if len(path) > len(best):
            best = path
        waiting.extend(
            (*path, inner)
            for inner in ast.children(path[-1])
            if inner.span.start <= offset <= inner.span.end
        )
    return best


def name_at(inspection: Inspection, offset: int) -> ast.Name | None:
    """The name at an offset."""
    if inspection.tree is None:
        return None
    path = path_at(inspection.tree, offset)
    return path[-1] if path and isinstance(path[-1], ast.Name) else None
