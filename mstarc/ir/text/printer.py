"""Print a program: its request, nodes and streams, then walks and machines, then decisions."""

from collections import Counter
from collections.abc import Iterator

from mstarc.ir.exprs import Expr
from mstarc.ir.graph import Context, Machine, Node, Op, Program, Stream, Walk
from mstarc.ir.text.print_decisions import decision_lines
from mstarc.ir.text.print_exprs import (
    format_constant,
    format_dim,
    format_expr,
    format_name,
    format_policy,
    format_string,
    format_tail,
    format_type,
)
from mstarc.ir.text.print_statements import (
    StatementPrinter,
    format_definition,
    format_definitions,
)
from mstarc.ir.walking import spans_of
from mstarc.source import Span


def print_program(program: Program, *, spans: bool = True) -> str:
    """The text of a program, ending in a line end. Without `spans` no place in the spec is kept."""
    return "\n".join(_Printer(program, spans=spans).lines()) + "\n"


class _Printer:
    def __init__(self, program: Program, *, spans: bool) -> None:
        self.program = program
        paths = Counter(span.path for span in spans_of(program))
        # The commonest path, the first by name of several.
        self.source = min(paths, key=lambda path: (-paths[path], path)) if paths and spans else None
        self.spans = spans
        self.statements = StatementPrinter(self.loc)

    def loc(self, span: Span) -> str:
        if not self.spans:
            return ""
        path = "" if span.path == self.source else format_string(span.path) + ":"
        return f" !{path}{span.start}:{span.end}"

    def lines(self) -> Iterator[str]:
        program = self.program
        checkpoint = (
            f" from {format_string(program.checkpoint)}" if program.checkpoint is not None else ""
        )
        source = f" source {format_string(self.source)}" if self.source is not None else ""
        yield f"program {format_name(program.model)}{checkpoint}{source}"
        for group in (
            [f"config {format_name(k)} = {format_constant(v)}" for k, v in program.config],
            list(self.request_lines()),
            [f"folded {format_string(a)} into {format_name(b)}" for a, b in program.folded],
        ):
            if group:
                yield ""
                yield from group
        for node in program.nodes:
            yield ""
            yield from self.node_lines(node)
        if program.streams:
            yield ""
            yield from map(self.stream_line, program.streams)
        for walk in program.walks:
            yield ""
            yield from self.walk_lines(walk)
        for machine in program.machines:
            yield ""
            yield from self.machine_lines(machine)
        yield from decision_lines(program)

    def request_lines(self) -> Iterator[str]:
        for field in self.program.inputs:
            flags = " optional" if field.optional else ""
            flags += f" at least {field.at_least}" if field.at_least else ""
            flags += " turns" if field.turns else ""
            head = f"input {format_name(field.name)} : {format_type(field.type)}"
            yield f"{head}{flags}{self.loc(field.span)}"
        for output in self.program.outputs:
            flags = " optional" if output.optional else ""
            if output.via is not None:
                flags += f" via {format_name(output.via[0])}.{format_name(output.via[1])}"
            head = f"output {format_name(output.name)} : {format_type(output.type)}"
            yield f"{head}{flags}{self.loc(output.span)}"
        for option in self.program.options:
            head = f"option {format_name(option.name)} : {format_type(option.type)}"
            if option.default is not None:
                head += f" = {format_constant(option.default)}"
            if option.domain is not None:
                kind, values = option.domain
                between, ends = (" .. ", ("", "")) if kind == "range" else (", ", ("{", "}"))
                head += f" in {ends[0]}{between.join(map(format_constant, values))}{ends[1]}"
            yield head + self.loc(option.span)
        for need in self.program.needs:
            yield f"need {format_expr(need.condition)}{self.loc(need.span)}"
        for let in self.program.lets:
            head = f"let {format_name(let.name)} : {format_type(let.type)}"
            yield f"{head} = {format_expr(let.value)}{self.loc(let.span)}"
        for table in self.program.tables:
            index = f"{format_name(table.index)} in {format_expr(table.length)}"
            head = f"table {format_name(table.name)}[{index}]"
            yield f"{head} = {format_expr(table.value)}{self.loc(table.span)}"

    def node_lines(self, node: Node) -> Iterator[str]:
        head = f"node {format_name(node.name)} : {node.engine}{_aliases(node.aliases)}"
        yield f"{head}{self.loc(node.span)} {{"
        yield f"  impl {format_string(node.impl)}"
        if node.weights is not None:
            text = f"  weights {format_string(node.weights.source)}"
            if node.weights.under:
                text += f" under {format_string(node.weights.under)}"
            if node.weights.size_bytes is not None:
                text += f" bytes {node.weights.size_bytes}"
            yield text
        if node.shards:
            yield f"  shards {', '.join(map(format_name, node.shards))}"
        if node.kv:
            yield f"  kv {{ {_settings(node.kv)} }}"
        for context in node.contexts:
            yield f"  {_context(context)}"
        for name, settings in node.samplers:
            inner = f" {_settings(settings)} " if settings else ""
            yield f"  sample {format_name(name)} {{{inner}}}"
        for op in node.ops:
            yield f"  {_op(op)}{self.loc(op.span)}"
        yield "}"

    def stream_line(self, stream: Stream) -> str:
        text = f"stream {format_name(stream.name)} : {format_type(stream.item)}"
        text += f" chunk {format_policy(stream.policy)}"
        if stream.tail is not None:
            text += f" tail {format_tail(stream.tail)}"
        if stream.empty is not None:
            text += f" empty {stream.empty}"
        if stream.marks:
            text += f" marks {', '.join(map(format_name, stream.marks))}"
        text += f" from {format_name(stream.producer)} to {format_name(stream.consumer)}"
        if stream.capacity is not None:
            text += f" capacity {stream.capacity}"
        return text + self.loc(stream.span)

    def walk_lines(self, walk: Walk) -> Iterator[str]:
        parameters = format_definitions(walk.parameters)
        text = f"walk {format_name(walk.name)}({parameters})"
        if walk.results:
            results = ", ".join(
                f"{format_name(result.name)}: {format_type(result.type)}{_if(result.condition)}"
                for result in walk.results
            )
            text += f" -> ({results})"
        yield f"{text}{_aliases(walk.aliases)}{self.loc(walk.span)} {{"
        yield from self.statements.block(walk.body, "  ", "return", walk.returns)
        yield "}"

    def machine_lines(self, machine: Machine) -> Iterator[str]:
        when = f" when {format_expr(machine.condition)}" if machine.condition is not None else ""
        yield f"machine {format_name(machine.name)}{when}{self.loc(machine.span)} {{"
        for register in machine.registers:
            yield f"  register {format_definition(register)}"
        for state in machine.states:
            yield f"  state {format_name(state.name)}{self.loc(state.span)} {{"
            yield from self.statements.block(state.body, "    ")
            go = state.next
            other = f" else {format_name(go.otherwise)}" if go.otherwise is not None else ""
            target = f"{format_name(go.target)}{_if(go.condition)}{other}"
            yield f"    next {target}{self.loc(go.span)}"
            yield "  }"
        yield "}"


def _if(condition: Expr | None) -> str:
    return f" if {format_expr(condition)}" if condition is not None else ""


def _aliases(aliases: tuple[str, ...]) -> str:
    return f" as {', '.join(map(format_string, aliases))}" if aliases else ""


def _settings(settings: tuple[tuple[str, Expr], ...]) -> str:
    return ", ".join(f"{format_name(name)} = {format_expr(value)}" for name, value in settings)


def _context(context: Context) -> str:
    text = f"context {format_name(context.name)}"
    if context.count is not None:
        text += f" count {format_expr(context.count)}"
    if context.cross is not None:
        text += f" cross {context.cross}"
    return text + _aliases(context.aliases)


def _op(op: Op) -> str:
    parameters = ", ".join(f"{format_name(p.name)}: {format_type(p.type)}" for p in op.parameters)
    text = f"op {format_name(op.name)}({parameters})"
    if op.results:
        results = ", ".join(
            f"{format_name(r.name)}: {format_type(r.type)}{_if(r.condition)}" for r in op.results
        )
        text += f" -> ({results})"
    if op.mask is not None:
        size = f"({format_dim(op.mask.size)})" if op.mask.size is not None else ""
        text += f" attends {op.mask.kind}{size}"
    for word, names in (("writes", op.writes), ("reads", op.reads)):
        if names:
            text += f" {word} {', '.join(map(format_name, names))}"
    if op.advance is not None:
        text += f" advance {format_expr(op.advance)}"
    if op.receptive is not None:
        text += f" receptive {op.receptive}"
    if op.sampler is not None:
        text += f" sampler {format_name(op.sampler)}"
    if op.stateful:
        text += " stateful"
    if op.cost:
        inner = ", ".join(f"{format_name(name)} = {value!r}" for name, value in op.cost)
        text += f" cost {{ {inner} }}"
    return text
