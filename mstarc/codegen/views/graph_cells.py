"""What a drawing of a placement shows: calls in lanes, what encloses them, and edges between.

A lane is one state of a machine on one rank, and of a `match` one arm: it runs from left to right.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from itertools import pairwise

from mstarc.ir.exprs import Input
from mstarc.ir.graph import Call, Each, Engine, Loop, Machine, Match, Run, Walk
from mstarc.ir.walking import Body, blocks_of, locals_of, statements_of, subexpressions
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
    """One call. `order` counts the calls of its machine; `arm` is the `match` arm that holds it."""

    call: CallOp
    step: RunStep
    rank: int
    engine: Engine
    order: int = 0
    arm: str = ""
    inputs: tuple[str, ...] = ()
    outputs: list[str] = field(default_factory=list)

    @property
    def walk(self) -> str | None:
        """The walk that holds the call; None in a state."""
        name = self.call.site.split("/")[0]
        return None if "." in name else name

    @property
    def state(self) -> str:
        """The state that the call runs in."""
        return self.step.name.removeprefix(f"{self.step.machine}.").split(".")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What encloses calls of one lane: a walk, a loop or an `each`, a region."""

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
class Lane:
    """The calls of one state, or of one arm in it, on one rank. `after` says what comes then."""

    rank: int
    machine: str
    state: str
    arm: str
    after: str
    cells: tuple[Cell, ...]
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """One placement."""

    placed: PlacedPlan
    lanes: tuple[Lane, ...]
    links: tuple[Link, ...]


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
        self.walks = {walk.name: walk for walk in placed.program.walks}
        self.cells: dict[int, list[Cell]] = {}

    def run(self) -> Drawing:
        self._make_cells()
        for machine in self.placed.program.machines:
            for order, cell in enumerate(self._machine_cells(machine.name)):
                cell.order = order
            self._set_arms(machine)
        return Drawing(
            placed=self.placed,
            lanes=tuple(self._lanes()),
            links=(*self._control(), *self._streams()),
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

    def _set_arms(self, machine: Machine) -> None:
        """Find the arm of each call: they come in the order in which the state names them."""
        for state in machine.states:
            sites = list(_sites(state.body, "", self.walks))
            position = 0
            for cell in self._machine_cells(machine.name):
                if cell.state != state.name:
                    continue
                for index in (*range(position, len(sites)), *range(position)):
                    if sites[index][0] == cell.call.site:
                        cell.arm, position = sites[index][1], index + 1
                        break

    def _lanes(self) -> list[Lane]:
        lanes = []
        for rank in self.placed.ranks:
            for machine in self.placed.program.machines:
                all_cells = self._machine_cells(machine.name)
                own = [cell for cell in all_cells if cell.rank == rank.rank]
                for cells in _runs(own, lambda cell: (cell.state, cell.arm), beside=False):
                    last = [c for c in all_cells if c.state == cells[0].state][-1]
                    lanes.append(
                        Lane(
                            rank=rank.rank,
                            machine=machine.name,
                            state=cells[0].state,
                            arm=cells[0].arm,
                            after=_after(machine, cells[0].state) if last is cells[-1] else "",
                            cells=tuple(cells),
                            frames=tuple(self._frames(cells)),
                        )
                    )
        return lanes

    # Frames

    def _frames(self, cells: list[Cell]) -> list[Frame]:
        frames: list[Frame] = []
        for run in _runs(cells, lambda cell: cell.walk):
            walk = run[0].walk
            if walk is None:
                continue
            frames.append(Frame(kind="walk", text=f"walk {walk}", cells=tuple(run)))
            frames += self._loops(self.walks[walk], run)
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
                if target.order <= cells[-1].order:
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
                for edge in (target.yes, target.no):
                    ends = (edge,) if isinstance(edge, int) else (edge.first, edge.otherwise)
                    pending += [(end, hop) for end in ends]
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


def _runs(
    cells: list[Cell], key: Callable[[Cell], object], *, beside: bool = True
) -> list[list[Cell]]:
    """Neighbours with one key, together; `beside`: with no other call of the machine between."""
    runs: list[list[Cell]] = []
    for cell in cells:
        last = runs[-1][-1] if runs else None
        is_next = last is not None and (last.order == cell.order - 1 or not beside)
        if last is not None and is_next and key(last) == key(cell):
            runs[-1].append(cell)
        else:
            runs.append([cell])
    return runs


def _sites(body: Body, arm: str, walks: Mapping[str, Walk]) -> Iterator[tuple[str, str]]:
    """The calls below a state's body in order, with the arm that each is in."""
    for statement in body:
        if isinstance(statement, Call):
            yield statement.site, arm
        elif isinstance(statement, Run):
            yield from _sites(walks[statement.walk].body, arm, walks)
        elif isinstance(statement, Match):
            for branch in statement.arms:
                yield from _sites(branch.body, branch.kind, walks)
        else:
            for block in blocks_of(statement):
                yield from _sites(block, arm, walks)


def _after(machine: Machine, name: str) -> str:
    """What comes after a state, in words. Choices without a body are looked through."""
    states = {state.name: state for state in machine.states}
    found: dict[str, None] = {}
    pending = [name]
    seen: set[str] = set()
    while pending:
        current = pending.pop(0)
        seen.add(current)
        go = states[current].next
        for target in (go.target, go.otherwise):
            if target is None or target in seen:
                continue
            if target in states and not states[target].body:
                pending.append(target)
            else:
                found[target] = None
    names = list(found)
    return " or ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
