"""Find the edges of the control path that cross ranks, and what travels over each.

Before:  %ids: i64[T] = frontend.encode(@prompt) ranks [0] #speak.begin/0
         %token: i64 = run start(%ids) #speak.begin/1     ; walk start calls lm on rank 1
After:   hop speak #speak.begin/1 -> #start/0 rank 0 -> 1 values (%"start/ids") bytes ?

A machine is at one place at a time; when its next call is on another rank, it goes there and takes
along the values that ranks other than the present one still need and the next one lacks. A walk's
value is named `walk/value`, a register by its bare name. `bytes_each` is None where a value's size
is known only at run time. Afterwards every edge between calls on different ranks has its hop.

Not here: items of streams (they go from producer to consumer by themselves) and pages of KV
contexts, which stay with their node.
"""

from dataclasses import replace

from mstarc.analysis.control import Point, control_path
from mstarc.analysis.sizes import bytes_of_type
from mstarc.analysis.types import types_in
from mstarc.ir.decisions import Hop
from mstarc.ir.graph import Machine, Program
from mstarc.ir.types import Type
from mstarc.passes.context import PassContext


def partition(program: Program, context: PassContext) -> Program:  # noqa: ARG001 - a pass
    """The program with its hops, in the order of machines and of their paths."""
    hops: list[Hop] = []
    for machine in program.machines:
        hops.extend(_hops(program, machine))
    return replace(program, hops=tuple(hops))


def _rank(point: Point) -> int:
    return point.home.ranks[0] if point.home is not None and point.home.ranks else 0


def _hops(program: Program, machine: Machine) -> list[Hop]:
    points = control_path(program, machine)
    if len({_rank(point) for point in points}) < 2:
        return []
    needed = _needed(points)
    held = _held(points, needed)
    types = _types(program, machine)
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
            if key in found:
                values = sorted({*values, *found[key].values})
            sizes = [bytes_of_type(types[name]) if name in types else None for name in values]
            found[key] = Hop(
                machine=machine.name,
                source_site=key[0],
                target_site=key[1],
                source_rank=source,
                target_rank=target,
                values=tuple(values),
                bytes_each=None if None in sizes else sum(size or 0 for size in sizes),
            )
    return list(found.values())


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


Held = dict[str, frozenset[int]]


def _held(points: list[Point], needed: Needs) -> list[Held]:
    """For each point and value: the ranks that surely have it after the point."""
    before: list[Held | None] = [None] * len(points)
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


def _after(point: Point, held: Held) -> Held:
    return {**held, **dict.fromkeys(point.defines, frozenset((_rank(point),)))}


def _carried(points: list[Point], index: int, after: int, needed: Needs, held: Held) -> list[str]:
    source, target = _rank(points[index]), _rank(points[after])
    if source == target:
        return []
    return sorted(
        name
        for name, ranks in needed[after].items()
        if target not in held.get(name, frozenset()) and ranks - {source}
    )


def _types(program: Program, machine: Machine) -> dict[str, Type]:
    walks = {walk.name for walk in program.walks}
    found: dict[str, Type] = {}
    for name, types, _ in types_in(program):
        if name in walks:
            found.update((f"{name}/{value}", type_) for value, type_ in types.items())
        elif name.startswith(f"{machine.name}."):
            found.update(types)
    return found
