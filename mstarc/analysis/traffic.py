"""What travels between calls in a request: values, KV rows where both use one context, items."""

from collections.abc import Mapping

from mstarc.analysis.control import Point
from mstarc.analysis.op_costs import bytes_given, find_op
from mstarc.ir.graph import Call, Each, Node, Program, Send
from mstarc.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeCost:
    """From a call to one after it, `times` a request, with `bytes` each time.

    `context` is none where values travel, else the context whose rows do, because both calls use
    it: then it costs only if the two are on different homes.
    """

    machine: str
    source: str
    target: str
    times: float
    bytes: float
    context: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCost:
    """Items of a stream: from the machine that sends to the calls that read, bytes a request."""

    name: str
    producer: str
    consumer: str
    source: str | None
    target: str | None
    items: float
    bytes: float


def edges_of(
    nodes: Mapping[str, Node],
    runs: Mapping[str, float],
    paths: Mapping[str, list[Point]],
    rows: int,
    expected: Mapping[tuple[str, str], float],
) -> tuple[EdgeCost, ...]:
    """What travels from each call to those after it. `rows` is the free size of a value.

    `expected` has bytes of KV rows of a request, by node and context.
    """
    found: dict[tuple[str, str, tuple[str, str] | None], EdgeCost] = {}
    for machine, points in paths.items():
        calls = [(p, p.statement) for p in points if isinstance(p.statement, Call)]
        pairs = [(call, after) for point, call in calls for after in _next(points, point, None)]
        arrivals: dict[str, float] = {}
        for before, after in pairs:
            arrivals[after.site] = arrivals.get(after.site, 0.0) + runs.get(before.site, 0.0)
        for before, after in pairs:
            there = runs.get(before.site, 0.0)
            # A call is reached once a run, from each of those before it by its share.
            share = there / (arrivals[after.site] or 1.0)
            op = find_op(nodes[after.node], after.op)
            given = sum(bytes_given(parameter.type, rows) for parameter in op.parameters)
            found.setdefault(
                (before.site, after.site, None),
                EdgeCost(
                    machine=machine,
                    source=before.site,
                    target=after.site,
                    times=min(there, runs.get(after.site, 0.0) * share),
                    bytes=given,
                ),
            )
        for point, call in calls:
            key = call.node, call.context or ""
            if key not in expected:
                continue
            for after in _next(points, point, key):
                found.setdefault(
                    (call.site, after.site, key),
                    EdgeCost(
                        machine=machine,
                        source=call.site,
                        target=after.site,
                        times=min(runs.get(call.site, 0.0), runs.get(after.site, 0.0)),
                        bytes=expected[key],
                        context=key,
                    ),
                )
    return tuple(found.values())


def streams_of(
    program: Program,
    runs: Mapping[str, float],
    paths: Mapping[str, list[Point]],
    rows: int,
) -> tuple[StreamCost, ...]:
    """What each stream carries in a request. `rows` is the free size of an item."""
    found: list[StreamCost] = []
    for stream in program.streams:
        items, source, target = 0.0, None, None
        for point in paths[stream.producer]:
            if isinstance(point.statement, Send) and point.statement.stream == stream.name:
                source = source or (point.home.site if point.home is not None else None)
                items += runs.get(point.home.site, 0.0) if point.home is not None else 0.0
        for point in paths[stream.consumer]:
            if isinstance(point.statement, Each) and stream.name in point.statement.streams:
                target = target or (point.home.site if point.home is not None else None)
        size = items * bytes_given(stream.item, rows)
        found.append(
            StreamCost(
                name=stream.name,
                producer=stream.producer,
                consumer=stream.consumer,
                source=source,
                target=target,
                items=items,
                bytes=size,
            )
        )
    return tuple(found)


def _next(points: list[Point], start: Point, context: tuple[str, str] | None) -> list[Call]:
    """The calls that may follow; with `context` the next that use it, others between them."""
    found: list[Call] = []
    seen: set[int] = set()
    pending = list(reversed(start.next))
    while pending:
        index = pending.pop()
        if index in seen:
            continue
        seen.add(index)
        statement = points[index].statement
        if isinstance(statement, Call) and (
            context is None or (statement.node, statement.context or "") == context
        ):
            found.append(statement)
        else:
            pending.extend(reversed(points[index].next))
    return found
