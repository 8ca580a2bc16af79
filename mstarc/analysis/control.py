"""The control path of a machine: its statements as points, with the walks that it runs inlined.

A point runs where its `home` runs: a call is its own home; any other statement stays with the
last call before it in its block, else goes with the first call after it. So what happens between
two calls never makes the path change ranks, and each edge that does leads to a call, or to the
head of a run, loop or `each`, that has a site.
"""

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import assert_never

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
from mstarc.ir.walking import Body, definitions_of, locals_of, reads_of
from mstarc.records import dataclass


@dataclass(slots=True)
class Point:
    """One step of the path. Names of a walk's values are `walk/name`; registers are bare."""

    statement: Statement | None
    site: str | None
    home: Call | None
    uses: tuple[str, ...]
    defines: tuple[str, ...]
    next: list[int] = field(default_factory=list)

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


@dataclass(slots=True)
class _Where:
    """Where the path is: points that lead on, the home of the last one, the prefix of names."""

    frontier: list[int]
    home: Call | None
    prefix: str


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
            where = _Where([], None, "")
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
        self.points.append(Point(statement, site, home, uses, names))
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
            case (
                Assign()
                | SetRegister()
                | Send()
                | Pull()
                | Emit()
                | Fork()
                | Release()
                | MarkStream()
            ):
                self.simple(statement, where, here, None)
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

    def run(self, run: Run, where: _Where, here: Call | None) -> None:
        walk = self.walks[run.walk]
        inner = _Where(where.frontier, None, f"{walk.name}/")
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
            branch = _Where(list(start), None, where.prefix)
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
        self.add(where, parallel, here)
        start = where.frontier
        frontier: list[int] = []
        for body in parallel.branches:
            branch = _Where(list(start), None, where.prefix)
            self.block(body, branch, here)
            frontier.extend(branch.frontier)
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
            branch = _Where(list(start), None, where.prefix)
            home = first_call(self.program, arm.body) or here
            self.add(branch, match, home, defines=[arm.value.name])
            self.block(arm.body, branch, home)
            ends.extend([branch.home] if branch.home is not None else [])
            frontier.extend(branch.frontier)
        where.frontier = frontier or start
        where.home = ends[-1] if ends else here
        self.add(where, match, where.home)
