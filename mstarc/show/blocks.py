"""A program as the blocks of a picture, its walks drawn where they are run."""

from collections.abc import Mapping
from typing import assert_never

from mstarc.ir.decisions import Assignment, Hop
from mstarc.ir.exprs import Const, Expr
from mstarc.ir.graph import (
    Assign,
    Call,
    Each,
    Emit,
    Engine,
    Fork,
    ForParts,
    Loop,
    Machine,
    MarkStream,
    Match,
    OptionField,
    Parallel,
    Program,
    Pull,
    Release,
    Run,
    Send,
    SetRegister,
    State,
    Statement,
    Stream,
    Transition,
    Walk,
    When,
)
from mstarc.ir.walking import Body
from mstarc.plan.words import (
    base_name,
    call_text,
    emit_text,
    loop_text,
    policy_text,
    results_text,
    send_text,
    spec_expr,
    type_text,
)
from mstarc.show.picture import Block, Channel, Field, Journey, NodeFacts, Picture, Rank
from mstarc.source import Span


def picture(program: Program) -> Picture:
    """The whole model: its machines with everything that they run."""
    drawer = _Drawer(program)
    placement = program.placement
    devices = placement.devices if placement is not None else ()
    return Picture(
        model=program.model,
        fields=_fields(program),
        nodes=tuple(drawer.node(index) for index in range(len(program.nodes))),
        channels=tuple(_channel(stream) for stream in program.streams),
        blocks=tuple(drawer.machine(machine) for machine in program.machines),
        placement=placement.name if placement is not None else "",
        ranks=tuple(
            Rank(
                number=device.rank,
                device=device.kind,
                used_bytes=sum(row.bytes for row in program.memory if row.rank == device.rank),
                memory_bytes=device.memory_bytes,
                copies=tuple(c.device for c in placement.copies if c.rank == device.rank),
            )
            for device in devices
            if placement is not None and device.rank in placement.ranks
        ),
        journeys=tuple(_journey(hop) for hop in program.hops),
    )


def _where(assignment: Assignment) -> str:
    """`0 + 1 tp 2`, `1 in decode`, `1 for no_text`."""
    words = " + ".join(map(str, assignment.ranks))
    words += f" tp {assignment.tp}" if assignment.tp > 1 else ""
    words += f" sp {assignment.sp}" if assignment.sp > 1 else ""
    words += f" for {', '.join(assignment.contexts)}" if assignment.contexts else ""
    return words + (f" in {', '.join(assignment.walks)}" if assignment.walks else "")


def _journey(hop: Hop) -> Journey:
    plain = [f"{node}.{what}" for node, what in hop.contexts if not what.startswith("sampler:")]
    return Journey(
        machine=hop.machine,
        source=hop.source_rank,
        target=hop.target_rank,
        place=hop.target_site,
        values=hop.values,
        contexts=tuple(plain),
        row_bytes=hop.row_bytes,
    )


def walk_block(program: Program, walk: Walk) -> Block:
    """One walk by itself."""
    return _Drawer(program).walk(walk)


def key_of(span: Span) -> str:
    """The key of the statement at `span`."""
    return f"{span.start}-{span.end}"


def run_text(run: Run) -> str:
    """`token = run start(ids)`."""
    return f"{results_text(run.results)}run {run.walk}({', '.join(map(spec_expr, run.arguments))})"


def state_key(machine: str, state: str) -> str:
    """The key of a state."""
    return f"{machine}.{state}"


def targets_of(state: State) -> tuple[tuple[str, str], ...]:
    """Where a state leads, each with its condition in words."""
    go: Transition = state.next
    if go.condition is None:
        return ((go.target, ""),)
    condition = spec_expr(go.condition)
    others = ((go.otherwise, "else"),) if go.otherwise is not None else ()
    return ((go.target, f"if {condition}"), *others)


class _Drawer:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.walks: Mapping[str, Walk] = {walk.name: walk for walk in program.walks}
        self.engines: Mapping[str, Engine] = {node.name: node.engine for node in program.nodes}
        self.regions = {site: region.name for region in program.regions for site in region.sites}

    def node(self, index: int) -> NodeFacts:
        node = self.program.nodes[index]
        assigned = self.program.placement.assignments if self.program.placement else ()
        weights = node.weights.source if node.weights is not None else ""
        return NodeFacts(
            name=node.name,
            engine=node.engine,
            impl=node.impl,
            weights=weights,
            ops=tuple(op.name for op in node.ops),
            ranks=tuple(
                sorted({rank for a in assigned if a.node == node.name for rank in a.ranks})
            ),
            where="; ".join(_where(a) for a in assigned if a.node == node.name),
        )

    def machine(self, machine: Machine) -> Block:
        condition = machine.condition
        return Block(
            kind="machine",
            key=machine.name,
            title=f"machine {machine.name}",
            name=machine.name,
            note=f"when {spec_expr(condition)}" if condition is not None else "",
            blocks=tuple(self.state(machine, state) for state in machine.states),
        )

    def state(self, machine: Machine, state: State) -> Block:
        return Block(
            kind="state",
            key=state_key(machine.name, state.name),
            title=f"state {state.name}",
            name=state.name,
            next=targets_of(state),
            blocks=self.body(state.body),
        )

    def walk(self, walk: Walk) -> Block:
        given = ", ".join(f"{base_name(v.name)}: {type_text(v.type)}" for v in walk.parameters)
        made = ", ".join(f"{r.name}: {type_text(r.type)}" for r in walk.results)
        return Block(
            kind="walk",
            key=key_of(walk.span),
            title=f"walk {walk.name}({given})" + (f" -> ({made})" if made else ""),
            name=walk.name,
            blocks=self.body(walk.body),
        )

    def body(self, body: Body) -> tuple[Block, ...]:
        return tuple(self.statement(statement) for statement in body)

    def statement(self, statement: Statement) -> Block:
        key = key_of(statement.span)
        match statement:
            case Call():
                return self.call(statement)
            case Assign(result=result, value=value) | SetRegister(result=result, value=value):
                title = f"{base_name(result.name)} = {spec_expr(value)}"
                return Block(kind="set", key=key, title=title)
            case Send():
                title = f"send {send_text(statement)}"
                return Block(kind="send", key=key, title=title, name=statement.stream)
            case Pull(stream=stream, result=result, or_none=or_none):
                title = f"{base_name(result.name)} = pull {stream}" + " or none" * or_none
                return Block(kind="pull", key=key, title=title, name=stream)
            case Emit():
                title = f"emit {emit_text(statement)}"
                return Block(kind="emit", key=key, title=title, name=statement.output)
            case Loop():
                return self.loop(statement)
            case Parallel(branches=branches):
                inner = tuple(
                    Block(
                        kind="branch",
                        key=f"{key}/{index}",
                        title=f"branch {index + 1}",
                        blocks=self.body(branch),
                    )
                    for index, branch in enumerate(branches)
                )
                return Block(kind="parallel", key=key, title="parallel", blocks=inner)
            case When():
                return self.when(statement)
            case Fork(node=node, target=target, source=source, condition=condition):
                title = f"fork {node}.{target} = {node}.{source}{_suffix(condition)}"
                return Block(kind="context", key=key, title=title, name=node)
            case Release(node=node, context=context):
                return Block(kind="context", key=key, title=f"release {node}.{context}", name=node)
            case Run(walk=walk):
                return Block(
                    kind="run",
                    key=key,
                    title=run_text(statement),
                    name=walk,
                    blocks=self.body(self.walks[walk].body),
                )
            case Each():
                return self.each(statement)
            case ForParts(part=part, over=over, body=body):
                title = f"for {part} in {over}"
                return Block(kind="for", key=key, title=title, name=over, blocks=self.body(body))
            case Match(part=part, arms=arms):
                inner = tuple(
                    Block(
                        kind="branch",
                        key=key_of(arm.span),
                        title=f"{arm.kind}({base_name(arm.value.name)})",
                        name=arm.kind,
                        blocks=self.body(arm.body),
                    )
                    for arm in arms
                )
                return Block(kind="match", key=key, title=f"match {part}", blocks=inner)
            case MarkStream(stream=stream, mark=mark):
                return Block(kind="mark", key=key, title=f"mark {stream}.{mark}", name=stream)
            case _:
                assert_never(statement)

    def call(self, call: Call) -> Block:
        context = f" on {call.context}" if call.context not in (None, "main") else ""
        return Block(
            kind="call",
            key=key_of(call.span),
            title=f"{call_text(call)}{context}",
            name=f"{call.node}.{call.op}",
            engine=self.engines[call.node],
            ranks=call.ranks,
            region=self.regions.get(call.site, ""),
        )

    def loop(self, loop: Loop) -> Block:
        carried = ", ".join(
            f"{base_name(c.value.name)} = {spec_expr(c.initial)}" for c in loop.carries
        )
        kept = ", ".join(base_name(c.result.name) for c in loop.collects)
        notes = ([f"carry {carried}"] if carried else []) + ([f"collect {kept}"] if kept else [])
        return Block(
            kind="loop",
            key=key_of(loop.span),
            title=loop_text(loop),
            note=", ".join(notes),
            blocks=self.body(loop.body),
        )

    def when(self, when: When) -> Block:
        key = key_of(when.span)
        title = f"when {spec_expr(when.condition)}"
        if not when.otherwise:
            return Block(kind="branch", key=key, title=title, blocks=self.body(when.then))
        arms = (("then", "then", when.then), ("else", "else", when.otherwise))
        return Block(
            kind="when",
            key=key,
            title=title,
            blocks=tuple(
                Block(kind="branch", key=f"{key}/{name}", title=title, blocks=self.body(body))
                for name, title, body in arms
            ),
        )

    def each(self, each: Each) -> Block:
        streams = ", ".join(each.streams)
        names = ", ".join(base_name(value.name) for value in each.names)
        notes = [f"chunk {policy_text(each.policy)}"] if each.policy is not None else []
        notes += [f"until {each.until}"] if each.until is not None else []
        return Block(
            kind="each",
            key=key_of(each.span),
            title=f"each {streams} as {names}" + (f", {each.last}" if each.last else ""),
            name=streams,
            note=", ".join(notes),
            blocks=self.body(each.body),
        )


def _suffix(condition: Expr | None) -> str:
    return f" if {spec_expr(condition)}" if condition is not None else ""


def _channel(stream: Stream) -> Channel:
    tail = "" if stream.tail is None else f"tail {stream.tail.kind}"
    empty = "" if stream.empty is None else f"empty {stream.empty}"
    marks = f"marks {', '.join(stream.marks)}" if stream.marks else ""
    return Channel(
        name=stream.name,
        producer=stream.producer,
        consumer=stream.consumer,
        item=type_text(stream.item),
        policy=policy_text(stream.policy),
        rest=", ".join(text for text in (marks, tail, empty) if text),
        capacity=stream.capacity,
    )


def _option_text(option: OptionField) -> str:
    return f"{type_text(option.type)} = {spec_expr(Const(option.default))}"


def _fields(program: Program) -> tuple[Field, ...]:
    found = [
        Field(
            kind="in",
            name=entry.name,
            text=type_text(entry.type) + (" optional" if entry.optional else ""),
        )
        for entry in program.inputs
    ]
    found += [
        Field(
            kind="out",
            name=entry.name,
            text=type_text(entry.type) + (" optional" if entry.optional else ""),
        )
        for entry in program.outputs
    ]
    found += [
        Field(kind="opt", name=entry.name, text=_option_text(entry)) for entry in program.options
    ]
    return tuple(found)
