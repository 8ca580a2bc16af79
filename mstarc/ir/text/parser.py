"""Parse a program: the inverse of `printer`."""

from typing import Literal

from mstarc.ir.decisions import Capacity, Hop, MemoryRow, PagePool, Placement, Region, Uncaptured
from mstarc.ir.graph import (
    InputField,
    Let,
    Machine,
    Need,
    Node,
    OptionField,
    OutputField,
    Program,
    State,
    Stream,
    Table,
    Transition,
    Value,
    Walk,
)
from mstarc.ir.text.lexer import Cursor
from mstarc.ir.text.parse_decisions import (
    parse_capacity,
    parse_hop,
    parse_memory,
    parse_placement,
    parse_pool,
    parse_region,
    parse_uncaptured,
)
from mstarc.ir.text.parse_exprs import (
    Constant,
    parse_constant,
    parse_expr,
    parse_scalar,
    parse_type,
)
from mstarc.ir.text.parse_nodes import parse_aliases, parse_names, parse_node, parse_results
from mstarc.ir.text.parse_policies import parse_policy, parse_tail
from mstarc.ir.text.parse_statements import (
    parse_block,
    parse_definition,
    parse_definitions,
    parse_statement,
)
from mstarc.source import SourceFile

Domain = tuple[Literal["range", "set"], tuple[Constant, ...]]


def parse_program(text: str, path: str = "program.mir") -> Program:
    """The program that a text says. A thing without a span gets its place in this text.

    Raises `MirSyntaxError` for a text that is no program. That a program is sound is for `verify`.
    """
    return _Parser(Cursor(SourceFile(path=path, text=text))).program()


class _Parser:
    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.config: list[tuple[str, Constant | tuple[Constant, ...]]] = []
        self.inputs: list[InputField] = []
        self.outputs: list[OutputField] = []
        self.options: list[OptionField] = []
        self.needs: list[Need] = []
        self.lets: list[Let] = []
        self.tables: list[Table] = []
        self.folded: list[tuple[str, str]] = []
        self.nodes: list[Node] = []
        self.streams: list[Stream] = []
        self.walks: list[Walk] = []
        self.machines: list[Machine] = []
        self.placement: Placement | None = None
        self.hops: list[Hop] = []
        self.regions: list[Region] = []
        self.uncaptured: list[Uncaptured] = []
        self.pools: list[PagePool] = []
        self.memory: list[MemoryRow] = []
        self.capacity: Capacity | None = None

    def program(self) -> Program:
        cursor = self.cursor
        cursor.expect("program")
        model = cursor.name("the name of the model")
        checkpoint = cursor.string() if cursor.accept("from") else None
        cursor.source = cursor.string() if cursor.accept("source") else None
        while cursor.token.kind != "end":
            self.item()
        return Program(
            model=model,
            checkpoint=checkpoint,
            config=tuple(self.config),
            inputs=tuple(self.inputs),
            outputs=tuple(self.outputs),
            options=tuple(self.options),
            needs=tuple(self.needs),
            lets=tuple(self.lets),
            tables=tuple(self.tables),
            nodes=tuple(self.nodes),
            streams=tuple(self.streams),
            walks=tuple(self.walks),
            machines=tuple(self.machines),
            folded=tuple(self.folded),
            placement=self.placement,
            hops=tuple(self.hops),
            regions=tuple(self.regions),
            uncaptured=tuple(self.uncaptured),
            pools=tuple(self.pools),
            memory=tuple(self.memory),
            capacity=self.capacity,
        )

    def item(self) -> None:
        cursor = self.cursor
        start = cursor.token.start
        word = cursor.kind("name", "an item of a program")
        match word:
            case "config":
                name = cursor.name()
                cursor.expect("=")
                value = parse_constant(cursor)
                if value is None:
                    raise cursor.fail("a value that is not none")
                self.config.append((name, value))
            case "input":
                self.inputs.append(self.input(start))
            case "output":
                self.outputs.append(self.output(start))
            case "option":
                self.options.append(self.option(start))
            case "need":
                condition = parse_expr(cursor)
                self.needs.append(Need(condition=condition, span=cursor.span(start)))
            case "let":
                self.lets.append(self.let(start))
            case "table":
                self.tables.append(self.table(start))
            case "folded":
                public = cursor.string()
                cursor.expect("into")
                self.folded.append((public, cursor.name()))
            case "node":
                self.nodes.append(parse_node(cursor, start))
            case "stream":
                self.streams.append(self.stream(start))
            case "walk":
                self.walks.append(self.walk(start))
            case "machine":
                self.machines.append(self.machine(start))
            case _:
                self.decision(word)

    def decision(self, word: str) -> None:
        cursor = self.cursor
        match word:
            case "placement":
                self.placement = parse_placement(cursor)
            case "hop":
                self.hops.append(parse_hop(cursor))
            case "region":
                self.regions.append(parse_region(cursor))
            case "uncaptured":
                self.uncaptured.append(parse_uncaptured(cursor))
            case "pool":
                self.pools.append(parse_pool(cursor))
            case "memory":
                self.memory.append(parse_memory(cursor))
            case "capacity":
                self.capacity = parse_capacity(cursor)
            case _:
                cursor.position -= 1
                raise cursor.fail("an item of a program")

    def input(self, start: int) -> InputField:
        cursor = self.cursor
        name = cursor.name()
        cursor.expect(":")
        type_ = parse_type(cursor)
        optional = cursor.accept("optional")
        at_least = 0
        if cursor.accept("at"):
            cursor.expect("least")
            at_least = cursor.integer()
        turns = cursor.accept("turns")
        return InputField(
            name=name,
            type=type_,
            optional=optional,
            at_least=at_least,
            turns=turns,
            span=cursor.span(start),
        )

    def output(self, start: int) -> OutputField:
        cursor = self.cursor
        name = cursor.name()
        cursor.expect(":")
        type_ = parse_type(cursor)
        optional = cursor.accept("optional")
        via = None
        if cursor.accept("via"):
            node = cursor.name()
            cursor.expect(".")
            via = (node, cursor.name())
        span = cursor.span(start)
        return OutputField(name=name, type=type_, optional=optional, via=via, span=span)

    def option(self, start: int) -> OptionField:
        cursor = self.cursor
        name = cursor.name()
        cursor.expect(":")
        type_ = parse_type(cursor)
        default = parse_scalar(cursor) if cursor.accept("=") else None
        domain = self.domain() if cursor.accept("in") else None
        span = cursor.span(start)
        return OptionField(name=name, type=type_, default=default, domain=domain, span=span)

    def domain(self) -> Domain:
        cursor = self.cursor
        if not cursor.accept("{"):
            low = parse_scalar(cursor)
            cursor.expect("..")
            return ("range", (low, parse_scalar(cursor)))
        values: list[Constant] = []
        while not cursor.accept("}"):
            values.append(parse_scalar(cursor))
            if not cursor.at("}"):
                cursor.expect(",")
        return ("set", tuple(values))

    def let(self, start: int) -> Let:
        cursor = self.cursor
        name = cursor.name()
        cursor.expect(":")
        type_ = parse_type(cursor)
        cursor.expect("=")
        value = parse_expr(cursor)
        return Let(name=name, type=type_, value=value, span=cursor.span(start))

    def table(self, start: int) -> Table:
        cursor = self.cursor
        name = cursor.name()
        cursor.expect("[")
        index = cursor.name()
        cursor.expect("in")
        length = parse_expr(cursor)
        cursor.expect("]")
        cursor.expect("=")
        value = parse_expr(cursor)
        span = cursor.span(start)
        return Table(name=name, index=index, length=length, value=value, span=span)

    def stream(self, start: int) -> Stream:
        cursor = self.cursor
        name = cursor.name()
        cursor.expect(":")
        item = parse_type(cursor)
        cursor.expect("chunk")
        policy = parse_policy(cursor)
        tail = parse_tail(cursor) if cursor.accept("tail") else None
        empty = cursor.name() if cursor.accept("empty") else None
        if empty not in (None, "skip", "error"):
            raise cursor.fail("`skip` or `error` before it")
        marks = parse_names(cursor) if cursor.accept("marks") else ()
        cursor.expect("from")
        producer = cursor.name("the name of a machine")
        cursor.expect("to")
        consumer = cursor.name("the name of a machine")
        capacity = cursor.integer() if cursor.accept("capacity") else None
        return Stream(
            name=name,
            item=item,
            policy=policy,
            tail=tail,
            empty="skip" if empty == "skip" else "error" if empty == "error" else None,
            marks=marks,
            producer=producer,
            consumer=consumer,
            capacity=capacity,
            span=cursor.span(start),
        )

    def walk(self, start: int) -> Walk:
        cursor = self.cursor
        name = cursor.name("the name of a walk")
        cursor.expect("(")
        parameters = parse_definitions(cursor, ")")
        results = parse_results(cursor)
        aliases = parse_aliases(cursor)
        span = cursor.span(start)
        cursor.expect("{")
        block = parse_block(cursor, "return")
        return Walk(
            name=name,
            parameters=parameters,
            results=results,
            body=block.body,
            returns=block.values,
            aliases=aliases,
            span=span,
        )

    def machine(self, start: int) -> Machine:
        cursor = self.cursor
        name = cursor.name("the name of a machine")
        condition = parse_expr(cursor) if cursor.accept("when") else None
        span = cursor.span(start)
        cursor.expect("{")
        registers: list[Value] = []
        while cursor.accept("register"):
            registers.append(parse_definition(cursor))
        states: list[State] = []
        while not cursor.accept("}"):
            states.append(self.state())
        return Machine(
            name=name,
            condition=condition,
            registers=tuple(registers),
            states=tuple(states),
            span=span,
        )

    def state(self) -> State:
        cursor = self.cursor
        start = cursor.token.start
        cursor.expect("state")
        name = cursor.name("the name of a state")
        span = cursor.span(start)
        cursor.expect("{")
        body = []
        while not (cursor.at("next") and cursor.ahead().text != "."):
            body.append(parse_statement(cursor))
        next_start = cursor.token.start
        cursor.expect("next")
        target = cursor.name("the name of a state")
        condition = parse_expr(cursor) if cursor.accept("if") else None
        otherwise = cursor.name("the name of a state") if cursor.accept("else") else None
        go = Transition(
            target=target, condition=condition, otherwise=otherwise, span=cursor.span(next_start)
        )
        cursor.expect("}")
        return State(name=name, body=tuple(body), next=go, span=span)
