"""The control path of a machine: its statements as points, with the walks that it runs inlined.

A point runs where its `home` runs: a call is its own home, a fork or a release is where its node
is, any other statement stays with the last call before it in its block, else goes with the first
call after it. So what happens between two calls seldom makes the path change ranks, and each edge
that does leads to a call, or to the head of a run, loop or `each`, that has a site.
"""

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import assert_never

from mstarc.analysis.travel import Held, used_by
from mstarc.ir.exprs import Expr
from mstarc.ir.graph import (
    Assign,
    Call,
    Each,
    Emit,
    Fork,
    ForParts,
    Loop,
    Machine,
    MarkStream,
    Match,
    Parallel,
    Program,
    Pull,
    Release,
    Run,
    Send,
    SetRegister,
    Statement,
    Walk,
    When,
)
from mstarc.ir.walking import (
    Body,
    all_statements,
    definitions_of,
    locals_of,
    reads_of,
    statements_of,
)
from mstarc.records import dataclass


@dataclass(slots=True)
class Point:
    """One step of the path. Names of a walk's values are `walk/name`; registers are bare.

    `walk` is what an assignment would name: the walk, or `machine.state`. The first point of a
    `parallel` over several ranks leads to a branch for each rank and knows the point `join` where
    they meet; `inside` are the branches that a point is in, as (first point, number).
    """

    statement: Statement | None
    site: str | None
    home: Call | None
    uses: tuple[str, ...]
    defines: tuple[str, ...]
    next: list[int] = field(default_factory=list)
    walk: str = ""
    join: int | None = None
    inside: tuple[tuple[int, int], ...] = ()

    @property
    def place(self) -> str | None:
        """The site to name when the path leaves or reaches this point."""
        return self.site or (self.home.site if self.home is not None else None)


def control_path(program: Program, machine: Machine) -> list[Point]:
    """The points of a machine, the first where it starts; `next` are indices into the list."""
    return _Path(program, machine).build()


def first_call(program: Program, body: Iterable[Statement]) -> Call | None:
    """The first call in source order, inside walks that are run too."""
    return next(calls_in(program, body), None)


def calls_in(program: Program, body: Iterable[Statement]) -> Iterator[Call]:
    """All calls of a body in source order, walks that it runs inlined."""
    walks = {walk.name: walk for walk in program.walks}
    yield from _calls_in(walks, body)


def _calls_in(walks: dict[str, Walk], body: Iterable[Statement]) -> Iterator[Call]:
    for statement in body:
        match statement:
            case Call():
                yield statement
            case Run(walk=walk):
                yield from _calls_in(walks, walks[walk].body)
            case Loop(body=inner) | Each(body=inner) | ForParts(body=inner):
                yield from _calls_in(walks, inner)
            case When(then=then, otherwise=otherwise):
                yield from _calls_in(walks, (*then, *otherwise))
            case Parallel(branches=branches):
                for branch in branches:
                    yield from _calls_in(walks, branch)
            case Match(arms=arms):
                for arm in arms:
                    yield from _calls_in(walks, arm.body)
            case _:
                pass


def side_by_side(program: Program, parallel: Parallel) -> tuple[Body, ...] | None:
    """The branches of each rank one behind the other, where they run at once on several ranks.

    None where they run in turn: on one rank; because two ranks would use one context or sampler;
    or because a branch does what has its order, such as a send.
    """
    groups: dict[int, list[Statement]] = {}
    used: dict[int, set[Held]] = {}
    for body in parallel.branches:
        first = first_call(program, body)
        rank = first.home if first is not None else next(iter(groups), 0)
        groups.setdefault(rank, []).extend(body)
        for statement in _inlined(program, body):
            if isinstance(statement, Send | Pull | Emit | MarkStream | Each | ForParts):
                return None
            used.setdefault(rank, set()).update(held_by(program, statement))
    together = sum(map(len, used.values())) > len(set().union(*used.values()))
    return None if len(groups) < 2 or together else tuple(map(tuple, groups.values()))


def held_by(program: Program, statement: Statement) -> frozenset[Held]:
    """The contexts and samplers that a statement itself uses."""
    match statement:
        case Call(node=name, op=op_name, context=context):
            node = next(node for node in program.nodes if node.name == name)
            return used_by(node, next(op for op in node.ops if op.name == op_name), context)
        case Fork(node=name, target=target, source=source):
            return frozenset({(name, target), (name, source)})
        case Release(node=name, context=context):
            return frozenset({(name, context)})
        case _:
            return frozenset()


def _inlined(program: Program, body: Iterable[Statement]) -> Iterator[Statement]:
    walks = {walk.name: walk for walk in program.walks}
    for statement in statements_of(tuple(body)):
        yield statement
        if isinstance(statement, Run):
            yield from _inlined(program, walks[statement.walk].body)


@dataclass(slots=True)
class _Where:
    """Where the path is: points that lead on, the home of the last one, the prefix of names."""

    frontier: list[int]
    home: Call | None
    prefix: str
    walk: str
    inside: tuple[tuple[int, int], ...] = ()

    def branch(self, start: list[int]) -> "_Where":
        """A way that begins behind `start`, where nothing has run."""
        return _Where(list(start), None, self.prefix, self.walk, self.inside)


class _Path:
    def __init__(self, program: Program, machine: Machine) -> None:
        self.program = program
        self.machine = machine
        self.walks = {walk.name: walk for walk in program.walks}
        self.points: list[Point] = []

    def build(self) -> list[Point]:
        entries: dict[str, int] = {}
        exits: list[tuple[int, tuple[str, ...]]] = []
        fallback = first_call(
            self.program, [s for state in self.machine.states for s in state.body]
        )
        for state in self.machine.states:
            home = first_call(self.program, state.body) or fallback
            where = _Where([], None, "", f"{self.machine.name}.{state.name}")
            entries[state.name] = self.add(where, None, home)
            self.block(state.body, where, home)
            go = state.next
            end = self.add(where, None, where.home or home, reads=self.reads(where, go.condition))
            exits.append((end, (go.target, *((go.otherwise,) if go.otherwise else ()))))
        for end, targets in exits:
            for target in targets:
                if target in entries and entries[target] not in self.points[end].next:
                    self.points[end].next.append(entries[target])
        return self.points

    def add(
        self,
        where: _Where,
        statement: Statement | None,
        home: Call | None,
        *,
        site: str | None = None,
        reads: Iterable[str] = (),
        defines: Iterable[str] = (),
    ) -> int:
        """A point after the frontier, which becomes it."""
        index = len(self.points)
        uses = tuple(dict.fromkeys(reads))
        names = tuple(where.prefix + name for name in defines)
        self.points.append(
            Point(statement, site, home, uses, names, walk=where.walk, inside=where.inside)
        )
        for before in where.frontier:
            self.link(before, index)
        where.frontier = [index]
        return index

    def link(self, before: int, after: int) -> None:
        if after not in self.points[before].next:
            self.points[before].next.append(after)

    def reads(self, where: _Where, *exprs: Expr | None) -> list[str]:
        return [where.prefix + name for expr in exprs for name in locals_of(expr)]

    def block(self, body: Body, where: _Where, outer: Call | None) -> None:
        """Add a body. `where.home` is None where nothing of this block has run."""
        for index, statement in enumerate(body):
            here = where.home or first_call(self.program, body[index:]) or outer
            self.statement(statement, where, here)

    def statement(self, statement: Statement, where: _Where, here: Call | None) -> None:
        match statement:
            case Call():
                self.simple(statement, where, statement, statement.site)
            case Assign() | SetRegister() | Send() | Pull() | Emit() | MarkStream():
                self.simple(statement, where, here, None)
            case Fork(node=node, source=context) | Release(node=node, context=context):
                home = self.home_of(node, context, where, here)
                self.simple(statement, where, home, None)
            case Run():
                self.run(statement, where, here)
            case Loop():
                self.loop(statement, where, here)
            case When():
                self.when(statement, where, here)
            case Parallel():
                self.parallel(statement, where, here)
            case Each(body=body, names=names):
                inner = [name.name for name in names] + ([statement.last] if statement.last else [])
                self.repeat(statement, statement.site, body, inner, where, here)
            case ForParts(body=body):
                self.repeat(statement, None, body, [], where, here)
            case Match():
                self.match(statement, where, here)
            case _:
                assert_never(statement)

    def simple(
        self, statement: Statement, where: _Where, home: Call | None, site: str | None
    ) -> None:
        reads = self.reads(where, *reads_of(statement))
        defines = [value.name for value in definitions_of(statement)]
        self.add(where, statement, home, site=site, reads=reads, defines=defines)
        where.home = home

    def home_of(self, node: str, context: str, where: _Where, here: Call | None) -> Call | None:
        """A call of a node where a context is changed in a walk, if that is not here."""
        placement = self.program.placement
        if placement is None:
            return here
        rank = placement.assignment(node, where.walk, context).ranks[0]
        if here is not None and here.home == rank:
            return here
        calls = (s for s in all_statements(self.program) if isinstance(s, Call))
        return next((call for call in calls if (call.node, call.home) == (node, rank)), here)

    def run(self, run: Run, where: _Where, here: Call | None) -> None:
        walk = self.walks[run.walk]
        inner = _Where(where.frontier, None, f"{walk.name}/", walk.name, where.inside)
        parameters = [value.name for value in walk.parameters]
        reads = self.reads(where, *run.arguments)
        self.add(inner, run, here, site=run.site, reads=reads, defines=parameters)
        self.block(walk.body, inner, here)
        home = inner.home or here
        where.frontier = inner.frontier
        taken = [value.name for value in definitions_of(run)]
        reads = self.reads(inner, *walk.returns)
        self.add(where, run, home, reads=reads, defines=taken)
        where.home = home

    def loop(self, loop: Loop, where: _Where, here: Call | None) -> None:
        home = first_call(self.program, loop.body) or here
        carried = [carry.value.name for carry in loop.carries]
        collected = [collect.result.name for collect in loop.collects]
        reads = self.reads(where, *reads_of(loop))
        self.add(where, loop, here, reads=reads, defines=[*carried, *collected])
        tests = self.reads(where, loop.condition)
        head = self.add(where, loop, home, site=loop.site, reads=tests)
        where.home = None
        self.block(loop.body, where, home)
        kept = [where.prefix + name for name in collected]
        collects = [collect.value for collect in loop.collects]
        reads = [*self.reads(where, *loop.yields, loop.until, *collects), *kept]
        self.add(where, loop, where.home or home, reads=reads, defines=[*carried, *collected])
        for end in where.frontier:
            self.link(end, head)
        where.frontier = [head]
        where.home = home
        reads = [where.prefix + name for name in (*carried, *collected)]
        results = [value.name for value in definitions_of(loop)]
        self.add(where, loop, home, reads=reads, defines=results)

    def when(self, when: When, where: _Where, here: Call | None) -> None:
        self.add(where, when, here, reads=self.reads(where, when.condition))
        start = where.frontier
        frontier: list[int] = []
        ends: list[Call] = []
        defines = [value.name for value in when.results]
        for body, yields in (
            (when.then, when.then_yields),
            (when.otherwise, when.otherwise_yields),
        ):
            branch = where.branch(start)
            self.block(body, branch, here)
            if branch.home is not None:
                ends.append(branch.home)
            reads = self.reads(branch, *yields)
            self.add(branch, when, branch.home or here, reads=reads, defines=defines)
            frontier.extend(branch.frontier)
        where.frontier = frontier
        where.home = ends[0] if ends else here
        self.add(where, when, where.home)

    def parallel(self, parallel: Parallel, where: _Where, here: Call | None) -> None:
        groups = side_by_side(self.program, parallel)
        if groups is None:
            self.alternatives(parallel, where, here)
            return
        homes = [first_call(self.program, group) for group in groups]
        if here is None or here.home not in {home.home for home in homes if home is not None}:
            here = homes[0]
        start = self.add(where, parallel, here)
        frontier: list[int] = []
        for number, group in enumerate(groups):
            branch = where.branch([start])
            branch.inside = (*where.inside, (start, number))
            self.block(group, branch, homes[number])
            frontier.extend(branch.frontier)
        where.frontier = frontier
        where.home = here
        self.points[start].join = self.add(where, parallel, here)

    def alternatives(self, parallel: Parallel, where: _Where, here: Call | None) -> None:
        """Branches of one rank run in any order; those of several that use one context, in turn."""
        self.add(where, parallel, here)
        start = where.frontier
        in_turn = len({call.home for call in calls_in(self.program, (parallel,))}) > 1
        frontier: list[int] = []
        for body in parallel.branches:
            branch = where.branch(frontier if in_turn and frontier else start)
            self.block(body, branch, here)
            frontier = branch.frontier if in_turn else [*frontier, *branch.frontier]
        where.frontier = frontier
        where.home = here
        self.add(where, parallel, here)

    def repeat(
        self,
        statement: Statement,
        site: str | None,
        body: Body,
        defines: list[str],
        where: _Where,
        here: Call | None,
    ) -> None:
        home = first_call(self.program, body) or here
        head = self.add(where, statement, home, site=site, defines=defines)
        where.home = None
        self.block(body, where, home)
        for end in where.frontier:
            self.link(end, head)
        where.frontier = [head]
        where.home = home

    def match(self, match: Match, where: _Where, here: Call | None) -> None:
        self.add(where, match, here)
        start = where.frontier
        frontier: list[int] = []
        ends: list[Call] = []
        for arm in match.arms:
            branch = where.branch(start)
            home = first_call(self.program, arm.body) or here
            self.add(branch, match, home, defines=[arm.value.name])
            self.block(arm.body, branch, home)
            ends.extend([branch.home] if branch.home is not None else [])
            frontier.extend(branch.frontier)
        where.frontier = frontier or start
        where.home = ends[-1] if ends else here
        self.add(where, match, where.home)
