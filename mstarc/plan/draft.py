"""Steps while they are being cut: drafts with labels between them, not yet numbered.

A label is where an edge goes before the step that stands there is known. `Drafting` keeps the
place where the next action goes: an open step, or labels that wait for the next one.
"""

from dataclasses import dataclass, field
from typing import Literal

from mstarc.ir.exprs import Expr
from mstarc.ir.graph import Call, Policy, Tail
from mstarc.plan.actions import Action, CallOp, Read, Repeat
from mstarc.plan.signatures import Signatures

Label = int
Kind = Literal["device", "host", "branch", "mark", "spread", "join", "done"]


@dataclass(frozen=True, slots=True)
class Goto:
    """On to the step at a label."""

    target: Label


@dataclass(frozen=True, slots=True)
class LoopEdge:
    """Behind a step: into a loop's first pass (`enter`), or behind a pass, for the next."""

    kind: Literal["enter", "again"]
    loop: str
    first: Label
    otherwise: Label


Edge = Goto | LoopEdge


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where in the spec a step comes from. `line` is the statement's or the walk's."""

    machine: str
    state: str
    walk: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CutPlan:
    """How a read cuts its streams, where not as they say; `until` is the mark that ends it."""

    policy: Policy
    tail: Tail | None
    until: str | None


@dataclass(slots=True, kw_only=True, eq=False)
class Draft:
    """A step in the making. `role` says what a step without calls, or a pass, is there for.

    A spread leads to its `branches`, which meet at the step `join`; `inside` are the branches that
    a step is in, as (spread, number), outermost first.
    """

    kind: Kind
    rank: int
    place: Place
    line: int
    role: str = ""
    actions: list[Action] = field(default_factory=list)
    reads: tuple[str, ...] = ()
    drained: Label | None = None
    last: Label | None = None
    cut: CutPlan | None = None
    pulls: tuple[str, ...] = ()
    mark: tuple[str, str] | None = None
    then: Edge | None = None
    test: Expr | None = None
    yes: "Label | LoopEdge | None" = None
    no: "Label | LoopEdge | None" = None
    text: str = ""
    # Nothing joins it: what it computes is as large as one request says.
    alone: bool = False
    branches: tuple[Label, ...] = ()
    join: "Draft | None" = None
    inside: "tuple[Inside, ...]" = ()

    @property
    def calls(self) -> list[CallOp]:
        """The calls, those of repeated bodies too."""
        return calls_in(self.actions)


Inside = tuple[Draft, int]


def calls_in(actions: "list[Action] | tuple[Action, ...]") -> list[CallOp]:
    """All calls among actions, in order."""
    found: list[CallOp] = []
    for action in actions:
        if isinstance(action, CallOp):
            found.append(action)
        elif isinstance(action, Repeat):
            found.extend(calls_in(action.body))
    return found


class Drafting:
    """The steps of one machine as they grow."""

    def __init__(self, signatures: Signatures, regions: dict[str, str], rank: int) -> None:
        self.signatures = signatures
        self.regions = regions
        self.rank = rank
        self.drafts: list[Draft] = []
        self.bound: dict[Label, Draft] = {}
        self.forward: dict[Label, Label] = {}
        self.waiting: list[Label] = []
        self.current: Draft | None = None
        self.role = ""
        self.reads: tuple[tuple[Read, ...], Label, CutPlan | None] | None = None
        self.last: Label | None = None
        self.sinks: list[list[Action]] = []
        self.inside: tuple[Inside, ...] = ()
        self._labels = 0

    def label(self) -> Label:
        """A label that stands nowhere yet."""
        self._labels += 1
        return self._labels

    def put_label(self, label: Label) -> None:
        """What comes next stands at `label` too."""
        if self.current is not None:
            self.close(Goto(label))
        self.waiting.append(label)

    def close(self, edge: Edge) -> None:
        """The open step ends here."""
        assert self.current is not None
        assert self.current.then is None
        self.current.then = edge
        self.current = None

    def jump(self, label: Label) -> None:
        """Everything that leads here goes on at `label`."""
        if self.current is not None:
            self.close(Goto(label))
        for waiting in self.waiting:
            self.forward[waiting] = label
        self.waiting = []

    def again(self, edge: LoopEdge, home: int, place: Place, line: int) -> None:
        """A pass of an untested loop ends here: each step that leads here goes back by itself.

        Where one is elsewhere or is a choice, a step on `home` goes back.
        """
        if self.current is None and self._go_back(edge, home):
            return
        draft = self.open_step(home, place, line)
        draft.role = draft.role or ("end" if not draft.calls else "")
        self.close(edge)

    def _go_back(self, edge: LoopEdge, home: int) -> bool:
        here: list[Draft] = []
        for draft in self.drafts:
            then = draft.then
            if isinstance(then, Goto) and self._is_here(then.target):
                here.append(draft)
                continue
            others = [draft.yes, draft.no, draft.drained, draft.last]
            others += [then.first, then.otherwise] if isinstance(then, LoopEdge) else []
            if any(isinstance(label, Label) and self._is_here(label) for label in others):
                return False
        # A mark or a join leads to one place, whichever pass it is.
        alone = ("done", "mark", "join")
        if any(draft.rank != home or draft.kind in alone for draft in here):
            return False
        for draft in here:
            draft.then = edge
        self.waiting = []
        return True

    def _is_here(self, label: Label) -> bool:
        while label in self.forward:
            label = self.forward[label]
        return label in self.waiting

    def start(self, kind: Kind, rank: int, place: Place, line: int) -> Draft:
        """A new step at this place; a wait for chunks that is due begins with it."""
        if self.reads is not None and kind in ("branch", "mark", "spread"):
            # A choice waits for nothing: the chunk is taken before it.
            self.start("device", rank, place, line)
        draft = Draft(
            kind=kind, rank=rank, place=place, line=line, role=self.role, inside=self.inside
        )
        self.role = ""
        if self.current is not None:
            self.waiting.append(self.label())
            self.close(Goto(self.waiting[-1]))
        for label in self.waiting:
            self.bound[label] = draft
        self.waiting = []
        if self.reads is not None:
            reads, draft.drained, draft.cut = self.reads
            draft.reads = tuple(read.stream for read in reads)
            draft.actions.extend(reads)
            self.reads, draft.last, self.last = None, self.last, None
        self.drafts.append(draft)
        self.current = draft
        self.rank = rank
        return draft

    def device(self, rank: int, place: Place, line: int) -> Draft:
        """The open device step on `rank`, or a new one."""
        draft = self.current
        if draft is not None and draft.kind == "device" and draft.rank == rank and not draft.alone:
            return draft
        return self.start("device", rank, place, line)

    def open_step(self, rank: int, place: Place, line: int) -> Draft:
        """The open step on `rank` of any kind that runs actions, or a new device step."""
        draft = self.current
        kinds = ("device", "host")
        if draft is not None and draft.kind in kinds and draft.rank == rank and not draft.alone:
            return draft
        return self.start("device", rank, place, line)

    def add(self, action: Action) -> None:
        """Append to the open step, or to the repeated body that is being filled."""
        if self.sinks:
            self.sinks[-1].append(action)
        else:
            assert self.current is not None
            self.current.actions.append(action)

    def call(self, call: Call, op: CallOp, place: Place) -> None:
        """Append a call, in a step of its own where it cannot join the open one."""
        if self.sinks:
            self.add(op)
            return
        rank = call.home
        if self.signatures.is_host(call.node):
            self.start("host", rank, place, op.line)
        elif not self.can_join(rank, op):
            self.start("device", rank, place, op.line)
        self.add(op)

    def can_join(self, rank: int, op: CallOp) -> bool:
        """Whether a device call may run in the open step."""
        draft = self.current
        if draft is None or draft.kind != "device" or draft.rank != rank or draft.alone:
            return False
        calls = draft.calls
        if not calls:
            return True
        if any(self.regions.get(call.site) != self.regions.get(op.site) for call in calls):
            return False
        return self.signatures.rows_together([*calls, op]) is not None
