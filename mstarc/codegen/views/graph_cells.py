"""What a drawing of a placement shows: calls in rows, what encloses them, and edges between."""

from collections.abc import Callable, Mapping
from dataclasses import field
from itertools import pairwise

from mstarc.ir.exprs import Input
from mstarc.ir.graph import Each, Engine, Loop, Walk
from mstarc.ir.walking import locals_of, statements_of, subexpressions
from mstarc.plan.actions import Action, CallOp, EmitValue, Repeat, SendItem
from mstarc.plan.lanes import stream_of, streams_of
from mstarc.plan.plan import (
    BranchPlan,
    HopPlan,
    JoinPlan,
    LoopTarget,
    MarkPlan,
    PlacedPlan,
    RankPlan,
    RunStep,
    SpreadPlan,
    Step,
)
from mstarc.plan.words import loop_text, policy_text
from mstarc.records import dataclass


@dataclass(slots=True, kw_only=True, eq=False)
class Cell:
    """One call. `column` counts from the left over the whole drawing."""

    call: CallOp
    step: RunStep
    rank: int
    engine: Engine
    column: int = 0
    inputs: tuple[str, ...] = ()
    outputs: list[str] = field(default_factory=list)

    @property
    def walk(self) -> str | None:
        """The walk that holds the call; None in a state."""
        name = self.call.site.split("/")[0]
        return None if "." in name else name


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What encloses calls of one row: a walk, a loop or an `each`, a region."""

    kind: str
    text: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """From call to call: control with the values' names, or a stream."""

    kind: str
    source: Cell
    target: Cell
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The calls of one machine on one rank."""

    rank: int
    machine: str
    cells: tuple[Cell, ...]
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """One placement."""

    placed: PlacedPlan
    rows: tuple[Row, ...]
    links: tuple[Link, ...]
    columns: int


def drawing(placed: PlacedPlan) -> Drawing:
    """What the drawing of a placement shows."""
    return _Drawer(placed).run()


def _calls(actions: tuple[Action, ...]) -> list[CallOp]:
    found: list[CallOp] = []
    for action in actions:
        if isinstance(action, CallOp):
            found.append(action)
        elif isinstance(action, Repeat):
            found += _calls(action.body)
    return found


class _Drawer:
    def __init__(self, placed: PlacedPlan) -> None:
        self.placed = placed
        self.engines = {node.name: node.engine for node in placed.program.nodes}
        self.steps: dict[int, tuple[RankPlan, Step]] = {
            step.id: (rank, step) for rank in placed.ranks for step in rank.steps
        }
        self.locals = {variable.name: variable.local for variable in placed.variables}
        self.cells: dict[int, list[Cell]] = {}

    def run(self) -> Drawing:
        self._make_cells()
        self._set_columns()
        rows = self._rows()
        cells = [cell for row in rows for cell in row.cells]
        return Drawing(
            placed=self.placed,
            rows=tuple(rows),
            links=(*self._control(), *self._streams()),
            columns=1 + max((cell.column for cell in cells), default=0),
        )

    def _make_cells(self) -> None:
        for number, (rank, step) in sorted(self.steps.items()):
            if not isinstance(step, RunStep):
                continue
            cells = [
                Cell(
                    call=call,
                    step=step,
                    rank=rank.rank,
                    engine=self.engines[call.node],
                    inputs=tuple(
                        part.name
                        for argument in call.arguments
                        for part in subexpressions(argument)
                        if isinstance(part, Input)
                    ),
                )
                for call in _calls(step.actions)
            ]
            for action in step.actions:
                if isinstance(action, EmitValue) and cells:
                    cells[-1].outputs.append(action.output)
            self.cells[number] = cells

    def _machine_cells(self, machine: str) -> list[Cell]:
        return [
            cell for cells in self.cells.values() for cell in cells if cell.step.machine == machine
        ]

    def _set_columns(self) -> None:
        """Machines from left to right; a reader begins below the last call that sends to it."""
        for machine in self.placed.program.machines:
            cells = self._machine_cells(machine.name)
            start = 0
            for stream in self.placed.program.streams:
                if stream.consumer == machine.name:
                    source = self._sender(stream.name)
                    start = max(start, 0 if source is None else source.column)
            for index, cell in enumerate(cells):
                cell.column = start + index

    def _rows(self) -> list[Row]:
        rows = []
        for rank in self.placed.ranks:
            for machine in self.placed.program.machines:
                cells = [c for c in self._machine_cells(machine.name) if c.rank == rank.rank]
                if cells:
                    rows.append(
                        Row(
                            rank=rank.rank,
                            machine=machine.name,
                            cells=tuple(cells),
                            frames=tuple(self._frames(cells)),
                        )
                    )
        return rows

    # Frames

    def _frames(self, cells: list[Cell]) -> list[Frame]:
        frames: list[Frame] = []
        walks = {walk.name: walk for walk in self.placed.program.walks}
        for run in _runs(cells, lambda cell: cell.walk):
            walk = run[0].walk
            if walk is None:
                continue
            frames.append(Frame(kind="walk", text=f"walk {walk}", cells=tuple(run)))
            frames += self._loops(walks[walk], run)
        frames += self._eaches(cells)
        for run in _runs(cells, lambda cell: cell.step.region):
            if run[0].step.region is not None:
                text = f"graph {run[0].step.region}"
                frames.append(Frame(kind="region", text=text, cells=tuple(run)))
        return frames

    def _loops(self, walk: Walk, cells: list[Cell]) -> list[Frame]:
        frames = []
        for statement in statements_of(walk.body):
            if not isinstance(statement, Loop):
                continue
            sites = {getattr(inner, "site", None) for inner in statements_of(statement.body)}
            inside = tuple(cell for cell in cells if cell.call.site in sites)
            if inside:
                frames.append(Frame(kind="loop", text=loop_text(statement), cells=inside))
        return frames

    def _eaches(self, cells: list[Cell]) -> list[Frame]:
        frames = []
        for machine in self.placed.program.machines:
            for state in machine.states:
                for statement in statements_of(state.body):
                    if not isinstance(statement, Each):
                        continue
                    first = [c for c in cells if streams_of(c.step.reads) == statement.streams]
                    if not first:
                        continue
                    begin = cells.index(first[0])
                    end = begin
                    for index, cell in enumerate(cells[begin:], begin):
                        if cell.step.then == first[0].step.id:
                            end = index
                    streams = " and ".join(statement.streams)
                    frames.append(
                        Frame(
                            kind="each", text=f"each {streams}", cells=tuple(cells[begin : end + 1])
                        )
                    )
        return frames

    # Links

    def _control(self) -> list[Link]:
        links: list[Link] = []
        for number, cells in self.cells.items():
            for one, two in pairwise(cells):
                links.append(Link(kind="next", source=one, target=two, text=self._names(one, two)))
            _, step = self.steps[number]
            if not cells or not isinstance(step, RunStep):
                continue
            for target, hop in self._after(step):
                if target.column <= cells[-1].column:
                    continue
                values = [] if hop is None else _taken_along(hop, self.locals)
                text = ", ".join(values) or self._names(cells[-1], target)
                kind = "hop" if hop is not None else "next"
                links.append(Link(kind=kind, source=cells[-1], target=target, text=text))
        return links

    def _names(self, source: Cell, target: Cell) -> str:
        """The values that `target` is given by `source`."""
        made = {name for name in source.call.results if name is not None}
        given = [name for a in target.call.arguments for name in locals_of(a) if name in made]
        return ", ".join(self.locals[name] for name in dict.fromkeys(given))

    def _after(self, step: RunStep) -> list[tuple[Cell, HopPlan | None]]:
        """The first calls that may follow a step, with the hop that leads there."""
        found: list[tuple[Cell, HopPlan | None]] = []
        then = step.then
        pending: list[tuple[int, HopPlan | None]] = []
        if isinstance(then, LoopTarget):
            pending = [(then.first, None)] if then.kind == "enter" else [(then.otherwise, None)]
        else:
            pending = [(then, None)]
        if step.drained is not None:
            pending.append((step.drained, None))
        seen: set[int] = set()
        while pending:
            number, hop = pending.pop(0)
            if number in seen:
                continue
            seen.add(number)
            _, target = self.steps[number]
            if isinstance(target, HopPlan):
                pending.append((target.step, target))
            elif isinstance(target, BranchPlan):
                pending += [(target.yes, hop), (target.no, hop)]
            elif isinstance(target, SpreadPlan):
                pending += [(branch, hop) for branch in target.branches]
            elif isinstance(target, JoinPlan | MarkPlan):
                pending.append((target.then, hop))
            elif isinstance(target, RunStep):
                if self.cells[number]:
                    found.append((self.cells[number][0], hop))
                elif isinstance(target.then, LoopTarget):
                    pending += [(target.then.first, hop), (target.then.otherwise, hop)]
                else:
                    pending.append((target.then, hop))
        return found

    def _streams(self) -> list[Link]:
        links = []
        for stream in self.placed.program.streams:
            source = self._sender(stream.name)
            readers = [
                cell
                for cells in self.cells.values()
                for cell in cells[:1]
                if stream.name in streams_of((*cell.step.reads, *cell.step.pulls))
            ]
            if source is not None and readers:
                text = f"{stream.name}: {policy_text(stream.policy)}, buffer {stream.capacity}"
                links.append(Link(kind="stream", source=source, target=readers[0], text=text))
        return links

    def _sender(self, stream: str) -> Cell | None:
        """The last call before a send to the stream."""
        senders = [
            cells[-1]
            for cells in self.cells.values()
            if cells
            and any(
                isinstance(a, SendItem) and stream_of(a.stream) == stream
                for a in cells[-1].step.actions
            )
        ]
        return senders[-1] if senders else None


def _taken_along(hop: HopPlan, names: Mapping[str, str]) -> list[str]:
    """What a hop takes along: values, then the contexts whose rows it may move."""
    plain = [held for held in hop.contexts if not held[1].startswith("sampler:")]
    return [names[name] for name in hop.values] + [f"KV {node}.{what}" for node, what in plain]


def _runs(cells: list[Cell], key: Callable[[Cell], str | None]) -> list[list[Cell]]:
    """Neighbours with one key, together."""
    runs: list[list[Cell]] = []
    for cell in cells:
        last = runs[-1][-1] if runs else None
        if last is not None and key(last) == key(cell) and last.column == cell.column - 1:
            runs[-1].append(cell)
        else:
            runs.append([cell])
    return runs
