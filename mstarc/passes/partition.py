"""Find the edges of the control path that cross ranks, and what travels over each.

Before:  %ids: i64[T] = frontend.encode(@prompt) ranks [0] #speak.begin/0
         %token: i64 = run start(%ids) #speak.begin/1     ; walk start calls lm on rank 1
After:   hop speak #speak.begin/1 -> #start/0 rank 0 -> 1 values (%"start/ids") bytes ?

A machine is at one place at a time; when its next call is on another rank, it goes there and takes
along the values that ranks other than the present one still need and the next one lacks. A walk's
value is named `walk/value`, a register by its bare name. `bytes_each` is None where a value's size
is known only at run time. Afterwards every edge between calls on different ranks has its hop.

Where a node is on several ranks, by walk or by context, the rows of a KV context go along with the
machine when it is next used on another rank (`analysis.travel`):

    hop speak #start/0 -> #decode/0 rank 0 -> 1 values () bytes 0 contexts (lm "main") row_bytes 512

Branches of a `parallel` on several ranks run at once: the machine goes to each of them, with what
the branch uses, and comes back from each with what it has made.

Not here: items of streams (they go from producer to consumer by themselves).
"""

from dataclasses import replace

from mstarc.analysis.control import Point, control_path, held_by
from mstarc.analysis.sizes import bytes_of_type, kv_row_bytes
from mstarc.analysis.travel import Held, Stop, journeys
from mstarc.analysis.types import types_in
from mstarc.diagnostics import Diagnostic, Label
from mstarc.ir.decisions import Hop
from mstarc.ir.graph import Machine, Program
from mstarc.ir.types import DType, Type
from mstarc.passes.context import PassContext


def partition(program: Program, context: PassContext) -> Program:
    """The program with its hops, in the order of machines and of their paths."""
    paths = [(machine, control_path(program, machine)) for machine in program.machines]
    _refuse_shared(program, paths, context)
    if context.sink.has_errors:
        return program
    assert program.placement is not None
    dtype = context.kind(program.placement.devices[0].kind).dtype
    hops = [hop for machine, points in paths for hop in _hops(program, machine, points, dtype)]
    return replace(program, hops=tuple(hops))


def _rank(point: Point) -> int:
    return point.home.home if point.home is not None else 0


def _refuse_shared(
    program: Program, paths: list[tuple[Machine, list[Point]]], context: PassContext
) -> None:
    """Report a context that two machines use on several ranks: neither could take it along."""
    users: dict[Held, dict[str, set[int]]] = {}
    for machine, points in paths:
        for point in points:
            for held in _uses(program, point):
                users.setdefault(held, {}).setdefault(machine.name, set()).add(_rank(point))
    reported: set[str] = set()
    for (name, what), machines in sorted(users.items()):
        ranks = sorted(set().union(*machines.values()))
        if len(machines) < 2 or len(ranks) < 2 or name in reported:
            continue
        reported.add(name)
        node = next(node for node in program.nodes if node.name == name)
        listed = " and ".join(f"`{machine}`" for machine in machines)
        message = f"`{name}.{what}` is on ranks {', '.join(map(str, ranks))} for {listed}"
        diagnostic = Diagnostic(
            code="MS0615",
            message=message,
            primary=Label(span=node.span, text="used by two machines at once"),
            notes=("a machine takes a context along to another rank; two cannot both have it",),
            helps=(f"place `{name}` on one rank in the walks of these machines",),
        )
        context.sink.report(diagnostic)


def _uses(program: Program, point: Point) -> frozenset[Held]:
    """The contexts that a point uses. A statement with blocks has several points and uses none."""
    return held_by(program, point.statement) if point.statement is not None else frozenset()


def _hops(program: Program, machine: Machine, points: list[Point], dtype: DType) -> list[Hop]:
    if len({_rank(point) for point in points}) < 2:
        return []
    needed = _needed(points)
    held = _held(points, needed)
    types = _types(program, machine)
    along = journeys(
        [
            Stop(
                rank=_rank(point),
                uses=_uses(program, point),
                next=point.next,
                join=point.join,
                inside=point.inside,
            )
            for point in points
        ]
    )
    found: dict[tuple[str, str], Hop] = {}
    for index, point in enumerate(points):
        for after in point.next:
            source, target = _rank(point), _rank(points[after])
            if source == target:
                continue
            values = _carried(points, index, after, needed, held[index])
            assert point.place is not None
            assert points[after].place is not None
            key = (point.place, points[after].place or "")
            contexts = along.get((index, after), ())
            if key in found:
                values = sorted({*values, *found[key].values})
                contexts = tuple(sorted({*contexts, *found[key].contexts}))
            sizes = [bytes_of_type(types[name]) if name in types else None for name in values]
            found[key] = Hop(
                machine=machine.name,
                source_site=key[0],
                target_site=key[1],
                source_rank=source,
                target_rank=target,
                values=tuple(values),
                bytes_each=None if None in sizes else sum(size or 0 for size in sizes),
                contexts=contexts,
                row_bytes=_row_bytes(program, contexts, dtype),
            )
    return list(found.values())


def _row_bytes(program: Program, contexts: tuple[Held, ...], dtype: DType) -> int:
    """Bytes of one row of each context, together."""
    nodes = {node.name: node for node in program.nodes}
    plain = [name for name, what in contexts if not what.startswith("sampler:")]
    return sum(kv_row_bytes(nodes[name], dtype) or 0 for name in plain)


Needs = list[dict[str, frozenset[int]]]


def _needed(points: list[Point]) -> Needs:
    """For each point and value: the ranks that may read it from there on, before it is set anew."""
    needed: Needs = [{} for _ in points]
    changed = True
    while changed:
        changed = False
        for index in range(len(points) - 1, -1, -1):
            point = points[index]
            live: dict[str, frozenset[int]] = {}
            for after in point.next:
                for name, ranks in needed[after].items():
                    live[name] = live.get(name, frozenset()) | ranks
            for name in point.defines:
                live.pop(name, None)
            for name in point.uses:
                live[name] = live.get(name, frozenset()) | {_rank(point)}
            if live != needed[index]:
                needed[index] = live
                changed = True
    return needed


Places = dict[str, frozenset[int]]


def _held(points: list[Point], needed: Needs) -> list[Places]:
    """For each point and value: the ranks that surely have it after the point."""
    before: list[Places | None] = [None] * len(points)
    before[0] = {}
    pending = [0]
    while pending:
        index = pending.pop()
        after_point = _after(points[index], before[index] or {})
        for after in points[index].next:
            carried = _carried(points, index, after, needed, after_point)
            arriving = dict(after_point)
            for name in carried:
                arriving[name] = arriving.get(name, frozenset()) | {_rank(points[after])}
            known = before[after]
            merged = arriving
            if known is not None:
                merged = {name: known[name] & arriving[name] for name in known if name in arriving}
            if merged != known:
                before[after] = merged
                pending.append(after)
    return [_after(point, held or {}) for point, held in zip(points, before, strict=True)]


def _after(point: Point, held: Places) -> Places:
    return {**held, **dict.fromkeys(point.defines, frozenset((_rank(point),)))}


def _carried(points: list[Point], index: int, after: int, needed: Needs, held: Places) -> list[str]:
    source, target = _rank(points[index]), _rank(points[after])
    if source == target:
        return []
    return sorted(
        name
        for name, ranks in needed[after].items()
        if target not in held.get(name, frozenset()) and ranks - {source}
        if _is_branchs_own(points, index, after, name)
    )


def _is_branchs_own(points: list[Point], index: int, after: int, name: str) -> bool:
    """Whether a branch uses a value that would go along to it, or has made one that comes back."""
    into = set(points[after].inside) - set(points[index].inside)
    if points[index].join is not None and into:
        return any(name in point.uses for point in points if into <= set(point.inside))
    left = set(points[index].inside) - set(points[after].inside)
    if left:
        return any(name in point.defines for point in points if left <= set(point.inside))
    return True


def _types(program: Program, machine: Machine) -> dict[str, Type]:
    walks = {walk.name for walk in program.walks}
    found: dict[str, Type] = {}
    for name, types, _ in types_in(program):
        if name in walks:
            found.update((f"{name}/{value}", type_) for value, type_ in types.items())
        elif name.startswith(f"{machine.name}."):
            found.update(types)
    return found
