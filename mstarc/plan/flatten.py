"""Cut each machine's states, and the walks that they run, into steps.

Before:  state begin { ids = frontend.encode(prompt, voice)   token = run start(ids)   next decode }
After:   host step speak.begin.encode -> device step speak.begin.start -> ...

A host op is a step of its own. Device calls that follow one another on one rank share a step as
far as they share a capture region. Waiting for a chunk begins a step, and so does a pass of a loop
(`loops`). A walk is inlined where it is run: its values become variables of the machine, named
`walk.value`. A condition that is known at admission becomes an entry of the request's options
(`Derived`), tested by a branch step or used as a mask.

Not here: the arguments of calls (`calls`), which variables outlive a step (`storage`), ranks that
a machine hops between and the numbers of steps (`layout`).
"""

from collections import Counter
from typing import assert_never

from mstarc.diagnostics import InternalError
from mstarc.ir.exprs import Const, Expr, Local
from mstarc.ir.folding import fold
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
    State,
    Statement,
    Value,
    When,
)
from mstarc.ir.types import Type
from mstarc.ir.walking import definitions_of, map_expr, statements_of
from mstarc.plan.actions import Move, SendItem, substitute
from mstarc.plan.calls import CallFlattener
from mstarc.plan.contexts import ContextFlattener
from mstarc.plan.draft import Drafting, Place
from mstarc.plan.effects import EffectFlattener, field_of
from mstarc.plan.extents import is_sized, value_type
from mstarc.plan.lanes import lanes_of
from mstarc.plan.loops import LoopFlattener
from mstarc.plan.parts import PartsFlattener
from mstarc.plan.plan import Derived
from mstarc.plan.presence import PresenceFlattener
from mstarc.plan.ranks import first_rank, starting_rank
from mstarc.plan.reads import ReadFlattener
from mstarc.plan.scope import Scope
from mstarc.plan.signatures import Signatures
from mstarc.plan.spreads import SpreadFlattener
from mstarc.plan.turns import Turns, is_static
from mstarc.plan.words import spec_expr
from mstarc.source import SourceFile, Span


class Flattener:
    """Cuts one machine. Afterwards `drafting.drafts` holds its steps."""

    def __init__(
        self,
        program: Program,
        machine: Machine,
        signatures: Signatures,
        source: SourceFile,
        derived: dict[str, Derived],
    ) -> None:
        self.program = program
        self.machine = machine
        self.signatures = signatures
        self.source = source
        self.turns = Turns(program, derived)
        self.walks = {walk.name: walk for walk in program.walks}
        self.streams = {stream.name: stream for stream in program.streams}
        self.types: dict[str, Type] = {}
        self.hints: dict[str, str] = {}
        self.registers: dict[str, Expr] = {}
        self.loops = LoopFlattener(self)
        self.effects = EffectFlattener(self)
        self.parts = PartsFlattener(self)
        self.reads = ReadFlattener(self)
        # Values that may be none, each with the variable that says whether it is there.
        self.optional: dict[str, str] = {}
        self.presence = PresenceFlattener(self)
        self.calls = CallFlattener(self)
        self.contexts = ContextFlattener(self)
        self.spreads = SpreadFlattener(self)
        self.drafting = Drafting(
            signatures,
            {site: region.name for region in program.regions for site in region.sites},
            starting_rank(program, machine),
        )
        self.states = {state.name: state for state in machine.states}
        self.state_labels = {name: self.drafting.label() for name in (*self.states, "done")}
        self._single = self._single_assignments()
        self._entries = Counter(
            target
            for state in machine.states
            for target in (state.next.target, state.next.otherwise)
            if target is not None
        )
        self._entries[machine.states[0].name] += 1
        self._walk_runs: Counter[str] = Counter()
        self._made = 0
        self._queue: list[str] = []
        self._seen: set[str] = set()

    # The machine

    def run(self) -> None:
        """Cut all states; the `done` step is last."""
        drafting = self.drafting
        first = self.machine.states[0].name
        drafting.put_label(self.state_labels[first])
        self.presence.set_absent()
        self._state(self.states[first])
        while self._queue:
            name = self._queue.pop(0)
            if name in self._seen:
                continue
            state = self.states[name]
            rank = first_rank(state.body, self.walks)
            drafting.rank = drafting.rank if rank is None else rank
            drafting.put_label(self.state_labels[name])
            self._state(state)
        self._done()

    def _state(self, state: State) -> None:
        self._seen.add(state.name)
        scope = Scope(Place(machine=self.machine.name, state=state.name), "")
        scope.values = self.registers
        self.body(state.body, scope)
        go = state.next
        if go.condition is None or isinstance(go.condition, Const):
            taken = go.target if go.condition is None or go.condition.value else go.otherwise
            if taken is None:
                raise InternalError("no transition holds", stage="plan", span=go.span)
            self._go(taken)
            return
        if go.otherwise is None:
            raise InternalError("a transition without `else`", stage="plan", span=go.span)
        name = f"{self.machine.name}.{state.name}.next"
        self.effects.branch(scope, go.condition, name, go.span)
        draft = self.drafting.current
        assert draft is not None
        draft.text = f"next {go.target} if {spec_expr(go.condition)} else {go.otherwise}"
        draft.yes, draft.no = self.state_labels[go.target], self.state_labels[go.otherwise]
        self.drafting.current = None
        for target in (go.target, go.otherwise):
            self._queue += [target] if target != "done" else []

    def _go(self, target: str) -> None:
        if target != "done" and target not in self._seen and self._entries[target] == 1:
            # The only way in: what follows may share a step with what came before.
            self._state(self.states[target])
            return
        self.drafting.jump(self.state_labels[target])
        if target != "done":
            self._queue.append(target)

    def _done(self) -> None:
        closes = self.closes()
        sending = sorted(
            {
                draft.rank
                for draft in self.drafting.drafts
                if any(isinstance(a, SendItem) for a in self.loops.flat(draft.actions))
            }
        )
        place = Place(machine=self.machine.name, state="done")
        self.drafting.put_label(self.state_labels["done"])
        rank = self.drafting.rank
        if sending and rank not in sending:
            rank = sending[-1]
        draft = self.drafting.start("done", rank, place, self.line(self.machine.span))
        draft.text = f"closes {', '.join(closes)}" if closes else ""

    def closes(self) -> tuple[str, ...]:
        """The streams that close when the machine is done."""
        streams = [s for s in self.program.streams if s.producer == self.machine.name]
        return tuple(lane.name for stream in streams for lane in lanes_of(stream))

    # Statements

    def body(self, statements: tuple[Statement, ...], scope: Scope) -> None:
        """Cut statements one after another."""
        for index, statement in enumerate(statements):
            if isinstance(statement, Pull):
                rank = first_rank(statements[index + 1 :], self.walks)
                self.drafting.rank = self.drafting.rank if rank is None else rank
            self.statement(statement, scope)
            self.presence.set_present(statement, scope)

    def statement(self, statement: Statement, scope: Scope, *, masked: bool = False) -> None:
        """Cut one statement."""
        match statement:
            case Call():
                self.calls.call(statement, scope)
            case Run():
                self._run(statement, scope)
            case Assign(result=result, value=value, span=span):
                self.assign(result, self.expr(value, scope), scope, span)
            case SetRegister(result=result, value=value, span=span):
                self.assign(result, self.expr(value, scope), scope, span)
            case Send():
                self.effects.send(statement, scope, masked=masked)
            case Emit():
                self.effects.emit(statement, scope, masked=masked)
            case Loop():
                self.loops.loop(statement, scope)
            case When():
                self._when(statement, scope)
            case Each():
                self.reads.each(statement, scope)
            case Parallel():
                self.spreads.parallel(statement, scope)
            case ForParts():
                self.parts.each_part(statement, scope)
            case Match():
                self.parts.match(statement, scope)
            case Fork():
                self.contexts.fork(statement, scope)
            case Release():
                self.contexts.release(statement, scope)
            case Pull():
                self.reads.pull(statement, scope)
            case MarkStream():
                self.effects.mark(statement, scope)
            case _:
                assert_never(statement)

    def _run(self, run: Run, scope: Scope) -> None:
        walk = self.walks[run.walk]
        self._walk_runs[walk.name] += 1
        count = self._walk_runs[walk.name]
        prefix = f"{walk.name}." if count == 1 else f"{walk.name}.{count}."
        place = Place(machine=scope.place.machine, state=scope.place.state, walk=walk.name)
        inner = Scope(place, prefix)
        for parameter, argument in zip(walk.parameters, run.arguments, strict=True):
            inner.values[parameter.name] = self.expr(argument, scope)
        self.body(walk.body, inner)
        pairs = []
        for result, returned in zip(run.results, walk.returns, strict=True):
            if result is None:
                continue
            value = self.expr(returned, inner)
            is_only = result.name in self._single and result.name not in self.optional
            if scope.is_machine and is_only and isinstance(value, Local):
                self.registers[result.name] = value
                self.hints[value.name] = result.name
                continue
            pairs.append((self.define(result, scope), value))
        self.move(pairs, scope, run.span)

    def _when(self, when: When, scope: Scope) -> None:
        holds = self.holds(when.condition, scope)
        if holds is not None:
            taken = when.then if holds else when.otherwise
            yields = when.then_yields if holds else when.otherwise_yields
            self.body(taken, scope)
            for result, value in zip(when.results, yields, strict=True):
                scope.values[result.name] = self.expr(value, scope)
            return
        place = scope.place
        name = f"{place.machine}.{place.walk or place.state}.when"
        self.effects.branch(scope, when.condition, name, when.span)
        draft = self.drafting.current
        assert draft is not None
        join = self.drafting.label()
        draft.yes, draft.no = self.drafting.label(), self.drafting.label()
        results = [self.define(result, scope) for result in when.results]
        self.drafting.current = None
        rank = draft.rank
        for label, body, yields in (
            (draft.yes, when.then, when.then_yields),
            (draft.no, when.otherwise, when.otherwise_yields),
        ):
            self.drafting.rank = rank
            self.drafting.put_label(label)
            self.body(body, scope)
            values = [self.expr(value, scope) for value in yields]
            # What a branch does not set is never read where that branch was taken.
            pairs = [
                (name, value)
                for name, value in zip(results, values, strict=True)
                if value != Const(None)
            ]
            self.move(pairs, scope, when.span)
            self.drafting.jump(join)
        self.drafting.put_label(join)

    # Values

    def define(self, value: Value, scope: Scope) -> str:
        """The variable of a value that is defined here."""
        name = scope.prefix + value.name
        self.types[name] = value.type
        scope.values[value.name] = Local(name)
        return name

    def expr(self, expr: Expr, scope: Scope) -> Expr:
        """The expression over variables."""
        return map_expr(self.turns.named(substitute(expr, scope.values)), field_of)

    def holds(self, condition: Expr | None, scope: Scope) -> bool | None:
        """Whether a condition holds, where that is known here; no condition always does."""
        if condition is None:
            return True
        match fold(self.expr(condition, scope)):
            case Const(value):
                return bool(value)
            case _:
                return None

    def assign(self, result: Value, value: Expr, scope: Scope, span: Span) -> None:
        """Give a name to a reshaped value; a plain copy in a walk is only another name."""
        is_name = isinstance(value, Local) or (is_static(value) and not isinstance(value, Const))
        if is_name and (not scope.is_machine or result.name in self._single):
            # What admission knows has no register: it is computed where it is used.
            scope.values[result.name] = value
            return
        self.move([(self.define(result, scope), value)], scope, span)

    def move(self, pairs: list[tuple[str, Expr]], scope: Scope, span: Span) -> None:
        """Set variables in the open step, or in a device step that is opened for it."""
        if not pairs:
            return
        if any(is_sized(value) for _, value in pairs):
            self._alone(pairs, scope, span)
            return
        copies = all(isinstance(value, Local | Const) for _, value in pairs)
        line = self.line(span)
        if copies:
            self.drafting.open_step(self.drafting.rank, scope.place, line)
        else:
            self.drafting.device(self.drafting.rank, scope.place, line)
        text = ", ".join(f"{name} = {spec_expr(value)}" for name, value in pairs)
        self.drafting.add(Move(pairs=tuple(pairs), text=text))

    def settled(self, value: Expr, scope: Scope, span: Span, name: str) -> Expr:
        """A value that may stand in any step: one that is sized is made in a step of its own."""
        return self.made(value, scope, span, name) if is_sized(value) else value

    def made(self, value: Expr, scope: Scope, span: Span, name: str) -> Local:
        """A variable that a step in front sets to a reshaped value; `name` is what people see."""
        self._made += 1
        held = Value(name=f"{name}.{self._made}", type=value_type(value, self.types))
        variable = self.define(held, scope)
        self.hints[variable] = name
        self._alone([(variable, value)], scope, span)
        return Local(variable)

    def _alone(self, pairs: list[tuple[str, Expr]], scope: Scope, span: Span) -> None:
        drafting = self.drafting
        assert not drafting.sinks, "a loop with sized values is not repeated in place"
        draft = drafting.start("device", drafting.rank, scope.place, self.line(span))
        text = ", ".join(f"{name} = {spec_expr(value)}" for name, value in pairs)
        drafting.add(Move(pairs=tuple(pairs), text=text))
        draft.alone = True

    def line(self, span: Span) -> int:
        """The spec's line of a span."""
        return self.source.position(span.start).line

    # Facts

    def _single_assignments(self) -> set[str]:
        counts: Counter[str] = Counter()
        for state in self.machine.states:
            for statement in statements_of(state.body):
                if isinstance(statement, Call | Run | SetRegister):
                    counts.update(value.name for value in definitions_of(statement))
        return {name for name, count in counts.items() if count == 1}
