"""A request, run by the interpreter, as the list of what happens in which order.

Machines take turns, one statement each, so that a reader sees a chunk as soon as it is complete.
`run_trace(program, request)` gives the events; `toy.toy_runs` makes requests that show much in few.
"""

from collections.abc import Iterable
from dataclasses import field
from typing import Any, Literal, TypeAlias

from mstarc.ir.chunks import Chunk, next_item
from mstarc.ir.graph import (
    Call,
    Each,
    Emit,
    Fork,
    ForParts,
    Loop,
    Machine,
    MarkStream,
    Policy,
    Program,
    Pull,
    Release,
    Run,
    Send,
    SetRegister,
    Statement,
    Value,
)
from mstarc.ir.interpret import Request
from mstarc.ir.interpret.evaluate import Scope
from mstarc.ir.interpret.machine import MachineRun
from mstarc.ir.interpret.reads import BLOCKED, Steps
from mstarc.ir.interpret.request import Outcome
from mstarc.ir.interpret.run import Interpreter
from mstarc.ir.interpret.streams import Channel
from mstarc.ir.interpret.toys import Fields
from mstarc.ir.walking import Body, all_statements
from mstarc.plan.words import (
    base_name,
    call_text,
    emit_text,
    loop_text,
    send_text,
)
from mstarc.records import dataclass
from mstarc.show.blocks import key_of, run_text, state_key

MOST_EVENTS = 1500
"""A page with more steps than this is not read; a run is cut there."""

EventKind: TypeAlias = Literal[
    "state",
    "run",
    "pass",
    "part",
    "call",
    "set",
    "send",
    "read",
    "pull",
    "emit",
    "mark",
    "context",
    "close",
    "done",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happens. `path` are the keys of the blocks around it, outside first.

    `name` is the stream, output or node; `values` are names with what they are now; `items` what
    was sent; `rows` are contexts with their number of rows; `waiting` are the machines that wait.
    """

    kind: EventKind
    machine: str
    state: str
    path: tuple[str, ...]
    text: str
    name: str = ""
    values: tuple[tuple[str, str], ...] = ()
    items: tuple[str, ...] = ()
    chunk: Chunk | None = None
    rows: tuple[tuple[str, int], ...] = ()
    waiting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """All events of a request, and how it ended. `is_cut` when there were too many."""

    events: tuple[Event, ...]
    error: str | None
    stuck: tuple[str, ...]
    off: tuple[str, ...]
    is_cut: bool


class _Enough(Exception):
    """There are as many events as anybody would step through."""


def run_trace(program: Program, request: Request) -> Trace:
    """What happens to a request. Its values are toys: numbers that stand for tensors."""
    run = _Tracer(program, request)
    try:
        outcome: Outcome | None = run.run()
    except _Enough:
        outcome = None
    return Trace(
        events=tuple(run.events),
        error=outcome.error if outcome is not None else None,
        stuck=outcome.stuck if outcome is not None else (),
        off=tuple(m.name for m in program.machines if not run.runs(m)),
        is_cut=outcome is None,
    )


def shown(value: Any) -> str:
    """A toy value in a few letters."""
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case tuple() if len(value) > 4:
            return f"[{shown(value[0])}, {shown(value[1])}, … {len(value)}]"
        case tuple():
            return f"[{', '.join(map(shown, value))}]"
        case Fields(values=values):
            return f"({', '.join(f'{name}: {shown(item)}' for name, item in values)})"
        case int() if value >= 10_000:
            # A number that stands for a whole row: its last digits tell it from others.
            return f"#{value % 10_000:04}"
        case _:
            return str(value)


def shown_values(values: Iterable[Value | None], scope: Scope) -> tuple[tuple[str, str], ...]:
    """Names and what they hold."""
    return tuple(
        (base_name(value.name), shown(scope.values.get(value.name)))
        for value in values
        if value is not None
    )


@dataclass(slots=True, kw_only=True)
class _WatchedChannel(Channel):
    """Keeps the chunks that it hands over, for the reader to name them."""

    handed: list[Chunk] = field(default_factory=list)

    def handed_over(self, chunk: Chunk, policy: Policy) -> Any:
        self.handed.append(chunk)
        return Channel.handed_over(self, chunk, policy)


class _Tracer(Interpreter):
    """Runs the machines in turns and keeps what they note."""

    def __init__(self, program: Program, request: Request) -> None:
        super().__init__(program, request, None, False)
        self.watched = {
            name: _WatchedChannel(
                stream=channel.stream,
                capacity=None,
                is_read=channel.is_read,
                history=channel.history,
            )
            for name, channel in self.channels.items()
        }
        self.channels = dict(self.watched)
        self.loops = {s.site: s for s in all_statements(program) if isinstance(s, Loop)}
        self.fors = {id(s.body): s for s in all_statements(program) if isinstance(s, ForParts)}
        self.events: list[Event] = []
        self.waiting: set[str] = set()

    def machines(self) -> tuple[str, ...]:
        live = {m.name: _TracedRun(self, m).steps() for m in self.program.machines if self.runs(m)}
        while live:
            moved = False
            for name in list(live):
                end = self.advance(live[name])
                if end == "waits":
                    self.waiting.add(name)
                    continue
                moved = True
                if end == "ended":
                    del live[name]
                    self.finish(name)
            if not moved:
                return tuple(sorted(live))
        return ()

    def advance(self, steps: Steps) -> Literal["noted", "waits", "ended"]:
        """Let a machine go on up to the next event."""
        count = len(self.events)
        for step in steps:
            if step is BLOCKED:
                return "waits"
            if len(self.events) > count:
                return "noted"
        return "ended"

    def finish(self, machine: str) -> None:
        super().finish(machine)
        for channel in self.channels.values():
            if channel.stream.producer == machine:
                name = channel.stream.name
                self.note("close", machine, "done", (), f"stream {name} is closed", name=name)
        self.note("done", machine, "done", (), f"machine {machine} is done")

    def note(
        self,
        kind: EventKind,
        machine: str,
        state: str,
        path: tuple[str, ...],
        text: str,
        **facts: Any,
    ) -> None:
        """Keep an event. Raises `_Enough` when there are too many."""
        self.waiting.discard(machine)
        if len(self.events) >= MOST_EVENTS:
            raise _Enough
        self.events.append(
            Event(
                kind=kind,
                machine=machine,
                state=state,
                path=path,
                text=text,
                waiting=tuple(sorted(self.waiting)),
                **facts,
            )
        )


class _TracedRun(MachineRun):
    """Does what `MachineRun` does, and notes it."""

    def __init__(self, tracer: _Tracer, machine: Machine) -> None:
        super().__init__(tracer, machine)
        self.tracer = tracer
        self.state = ""
        self.path: list[str] = []
        self.states = {id(state.body): state.name for state in machine.states}
        self.passes: dict[str, int] = {}

    def note(self, kind: EventKind, text: str, **facts: Any) -> None:
        self.tracer.note(kind, self.machine.name, self.state, tuple(self.path), text, **facts)

    def body(self, body: Body, scope: Scope) -> Steps:
        state = self.states.get(id(body)) if len(self.path) <= 1 else None
        if state is not None:
            self.state = state
            self.path[:] = [state_key(self.machine.name, state)]
            self.note("state", f"{self.machine.name} enters state {state}")
        loop = self.tracer.fors.get(id(body))
        if loop is not None:
            part = scope.parts[loop.part]
            values = ((loop.part, f"{part['kind']} {shown(part['value'])}"),)
            self.note("part", f"{part['kind']} part of {loop.over}", name=loop.over, values=values)
        # What was noted is over before the first statement begins.
        yield None
        yield from super().body(body, scope)

    def count(self, site: str) -> None:
        super().count(site)
        loop = self.tracer.loops.get(site)
        if loop is not None:
            self.passes[site] = self.passes.get(site, 0) + 1
            self.note("pass", f"pass {self.passes[site]} of {loop_text(loop)}")

    def statement(self, statement: Statement, scope: Scope) -> Steps:
        self.path.append(key_of(statement.span))
        if isinstance(statement, Loop):
            self.passes[statement.site] = 0
        if isinstance(statement, Run):
            self.note_run(statement, scope)
        before = self.before(statement)
        yield from super().statement(statement, scope)
        self.after(statement, scope, before)
        self.path.pop()

    def note_run(self, run: Run, scope: Scope) -> None:
        parameters = self.tracer.walks[run.walk].parameters
        contents = [self.value(argument, scope) for argument in run.arguments]
        values = tuple(
            (base_name(parameter.name), shown(content))
            for parameter, content in zip(parameters, contents, strict=True)
        )
        self.note("run", run_text(run), name=run.walk, values=values)

    def before(self, statement: Statement) -> Any:
        """What `after` needs to know of the time before a statement."""
        match statement:
            case Send(stream=stream):
                return len(self.tracer.channels[stream].history.items)
            case Emit(output=output):
                return len(self.tracer.emits[output])
            case Pull(stream=stream):
                return self.tracer.channels[stream].cursor
            case _:
                return None

    def after(self, statement: Statement, scope: Scope, before: Any) -> None:
        match statement:
            case Call(node=node, op=op, results=results):
                values = shown_values(results, scope)
                rows = self.rows_of(node)
                name = f"{node}.{op}"
                self.note("call", call_text(statement), name=name, values=values, rows=rows)
            case SetRegister(result=result):
                values = shown_values((result,), scope)
                self.note("set", " = ".join(values[0]), values=values)
            case Send(stream=stream):
                items = self.tracer.channels[stream].history.items[before:]
                if items:
                    sent = tuple(map(shown, items))
                    self.note("send", f"send {send_text(statement)}", name=stream, items=sent)
            case Pull(stream=stream, result=result):
                found = next_item(before, self.tracer.channels[stream].history)
                chunk = found[0] if found is not None and isinstance(found[0], Chunk) else None
                values = shown_values((result,), scope)
                text = f"{base_name(result.name)} = pull {stream}"
                self.note("pull", text, name=stream, values=values, chunk=chunk)
            case Emit(output=output):
                items = self.tracer.emits[output][before:]
                if items:
                    text = f"emit {emit_text(statement)}"
                    self.note("emit", text, name=output, items=tuple(map(shown, items)))
            case MarkStream(stream=stream, mark=mark):
                self.note("mark", f"mark {stream}.{mark}", name=stream, items=(mark,))
            case Fork(node=node, target=target, source=source):
                text = f"fork {node}.{target} = {node}.{source}"
                self.note("context", text, name=node, rows=self.rows_of(node))
            case Release(node=node, context=context):
                text = f"release {node}.{context}"
                self.note("context", text, name=node, rows=self.rows_of(node))
            case _:
                pass

    def chunk(self, each: Each, contents: list[Any], last: bool | None, scope: Scope) -> Steps:
        for stream, value, content in zip(each.streams, each.names, contents, strict=True):
            chunk = self.tracer.watched[stream].handed.pop(0)
            values = ((base_name(value.name), shown(content)),)
            text = f"{self.machine.name} reads a chunk of {stream}"
            self.note("read", text, name=stream, values=values, chunk=chunk)
        yield from super().chunk(each, contents, last, scope)

    def rows_of(self, node: str) -> tuple[tuple[str, int], ...]:
        return tuple(
            (f"{owner}.{context}", len(rows.rows))
            for (owner, context), rows in sorted(self.tracer.contexts.items())
            if owner == node
        )
