"""What walks and machines do with streams and outputs, found through the walks that they run."""

from collections.abc import Iterator, Mapping

from mstarc.names import Resolved, Symbol
from mstarc.records import dataclass
from mstarc.source import Span
from mstarc.syntax import ast


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One use of a stream or an output. `walk` is the walk that it stands in, if it does."""

    name: str
    span: Span
    walk: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """By machine: what it sends to, reads from and emits to, with the walks that it runs."""

    sends: Mapping[str, tuple[Use, ...]]
    reads: Mapping[str, tuple[Use, ...]]
    emits: Mapping[str, tuple[Use, ...]]
    walks: Mapping[str, tuple[str, ...]]
    recursive: tuple[tuple[str, ...], ...]


def find_links(resolved: Resolved) -> Links:
    """The links of a spec. Walks that run each other in a circle are followed once."""
    bodies = {name: symbol.of(ast.WalkDecl).body for name, symbol in resolved.symbols.walks.items()}
    runs = {name: tuple(_runs(body, resolved)) for name, body in bodies.items()}
    sends: dict[str, tuple[Use, ...]] = {}
    reads: dict[str, tuple[Use, ...]] = {}
    emits: dict[str, tuple[Use, ...]] = {}
    walks: dict[str, tuple[str, ...]] = {}
    for name, symbol in resolved.symbols.machines.items():
        machine = symbol.of(ast.MachineDecl)
        run: list[str] = []
        for state in machine.states:
            for walk in _runs(state.body, resolved):
                _follow(walk, runs, run)
        walks[name] = tuple(run)
        places: list[tuple[str | None, ast.Node]] = [(None, state) for state in machine.states]
        places += [(walk, bodies[walk]) for walk in run]
        sends[name] = tuple(use for place in places for use in _sends(*place, resolved))
        reads[name] = tuple(use for place in places for use in _reads(*place, resolved))
        emits[name] = tuple(use for place in places for use in _emits(*place, resolved))
    return Links(
        sends=sends, reads=reads, emits=emits, walks=walks, recursive=tuple(_circles(runs))
    )


def uses_of(symbol: Symbol, uses: Mapping[str, tuple[Use, ...]]) -> dict[str, list[Use]]:
    """The uses of one stream or output, by machine."""
    found = {
        machine: [use for use in entries if use.name == symbol.name]
        for machine, entries in uses.items()
    }
    return {machine: entries for machine, entries in found.items() if entries}


def _runs(node: ast.Node, resolved: Resolved) -> Iterator[str]:
    for call in ast.descendants(node):
        if isinstance(call, ast.RunCall):
            symbol = resolved.meaning(call.walk)
            if symbol is not None:
                yield symbol.name


def _follow(walk: str, runs: Mapping[str, tuple[str, ...]], found: list[str]) -> None:
    if walk in found:
        return
    found.append(walk)
    for inner in runs[walk]:
        _follow(inner, runs, found)


def _sends(walk: str | None, body: ast.Node, resolved: Resolved) -> Iterator[Use]:
    for node in ast.descendants(body):
        if isinstance(node, ast.Send | ast.Mark):
            symbol = resolved.meaning(node.stream)
            if symbol is not None:
                yield Use(name=symbol.name, span=node.span, walk=walk)


def _reads(walk: str | None, body: ast.Node, resolved: Resolved) -> Iterator[Use]:
    for node in ast.descendants(body):
        names = (
            node.streams
            if isinstance(node, ast.Each)
            else (node.stream,)
            if isinstance(node, ast.Pull)
            else ()
        )
        for name in names:
            symbol = resolved.meaning(name)
            if symbol is not None:
                yield Use(name=symbol.name, span=name.span, walk=walk)


def _emits(walk: str | None, body: ast.Node, resolved: Resolved) -> Iterator[Use]:
    for node in ast.descendants(body):
        if isinstance(node, ast.Emit):
            symbol = resolved.meaning(node.output)
            if symbol is not None:
                yield Use(name=symbol.name, span=node.span, walk=walk)


def _circles(runs: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    reported: set[frozenset[str]] = set()
    for start in runs:
        path = _path_to(start, start, runs, ())
        if path is not None and frozenset(path) not in reported:
            reported.add(frozenset(path))
            yield path


def _path_to(
    walk: str, goal: str, runs: Mapping[str, tuple[str, ...]], path: tuple[str, ...]
) -> tuple[str, ...] | None:
    for inner in runs[walk]:
        if inner == goal:
            return (*path, walk)
        if inner not in path and inner != walk:
            found = _path_to(inner, goal, runs, (*path, walk))
            if found is not None:
                return found
    return None
