"""Find the calls that a CUDA graph can hold together, and say why the others are left out.

Before:  walk decode(%first: i64) {
           %last: i64 = loop max $max_tokens carry (%token: i64 = %first) … #decode/0 {
             send codes <- %token
             %token.1: i64 = lm.step(%token) on main ranks [0] #decode/1
After:   region "decode.0" rank 0 walk decode sites (#decode/1) buckets (1, 2, 4, 8)
         uncaptured #start/0 "`lm.prefill` takes `ids`, whose size `T` differs by call"

A region is a run of calls, one after the other in one body and on one group of ranks, whose shapes
are static for a batch bucket. A loop with a constant number of passes whose calls all are fit is a
part of the run around it, whole; the body of any other loop begins and ends runs. Sends and emits
do not end a run: they copy what the region made, after it. What the host decides does: a `pull`, a
`fork`, a `release`, a choice, a host op, another rank. A call in a state belongs to the walk
`machine.state`. A graph of a group is captured by each of its ranks, led by `rank`.

Buckets are 1, 2, 4, … up to the number of requests that may run, which is the last bucket: a batch
is padded up to the next. Reported on every device kind; `cpu` runs regions call by call. With
`require_graphs` each device call that is left out is an error (MS0701), but for a call outside of
loops that only its sizes keep out: a prompt has the length that it has.

Afterwards every call is in one region or has a reason. Not here: whether an implementation keeps to
its types (the runtime's capture says so), branches of `parallel` as one call (`plan.together`).
"""

from dataclasses import field, replace
from math import ceil

from mstarc.analysis.capture import has_free_length, why_not_captured
from mstarc.analysis.types import types_in
from mstarc.diagnostics import Diagnostic, Label
from mstarc.ir.decisions import Region, Uncaptured
from mstarc.ir.exprs import Const
from mstarc.ir.folding import fold
from mstarc.ir.graph import (
    Assign,
    Call,
    Each,
    Emit,
    Loop,
    Parallel,
    Program,
    Run,
    Send,
    SetRegister,
    Statement,
)
from mstarc.ir.types import Type
from mstarc.ir.walking import Body, blocks_of, bodies_of, statements_of
from mstarc.passes.context import PassContext
from mstarc.records import dataclass


def find_capture_regions(program: Program, context: PassContext) -> Program:
    """The program with its regions, and a reason for each call outside."""
    assert program.placement is not None
    regions: list[Region] = []
    uncaptured: list[Uncaptured] = []
    for name, types, body in types_in(program):
        finder = _Finder(program, name, types)
        finder.body(body)
        finder.end_run()
        regions.extend(finder.regions)
        uncaptured.extend(finder.uncaptured)
    if context.require_graphs:
        _report(program, uncaptured, context)
    return replace(program, regions=tuple(regions), uncaptured=tuple(uncaptured))


def buckets_for(max_requests: int) -> tuple[int, ...]:
    """Powers of two below `max_requests`, then itself.

    >>> buckets_for(12)
    (1, 2, 4, 8, 12)
    """
    buckets = []
    size = 1
    while size < max_requests:
        buckets.append(size)
        size *= 2
    return (*buckets, max_requests)


@dataclass(slots=True)
class _Finder:
    """Goes through one body; `run` are the calls of the region that is growing."""

    program: Program
    name: str
    types: dict[str, Type]
    run: list[Call] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    uncaptured: list[Uncaptured] = field(default_factory=list)

    def body(self, body: Body) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, statement: Statement) -> None:
        match statement:
            case Call():
                self.call(statement)
            case Send() | Emit() | Assign() | SetRegister():
                pass
            case Loop() | Parallel() if self.is_whole(statement):
                for inner in statements_of((statement,)):
                    if isinstance(inner, Call):
                        self.call(inner)
            case _:
                self.end_run()
                for block in blocks_of(statement):
                    self.body(block)
                    self.end_run()

    def call(self, call: Call) -> None:
        reason = self.reason(call)
        if reason is not None:
            self.end_run()
            self.uncaptured.append(Uncaptured(site=call.site, reason=reason))
            return
        if self.run and self.run[-1].ranks != call.ranks:
            self.end_run()
        self.run.append(call)

    def reason(self, call: Call) -> str | None:
        node = next(node for node in self.program.nodes if node.name == call.node)
        op = next(op for op in node.ops if op.name == call.op)
        return why_not_captured(node, op, call, self.types)

    def is_whole(self, block: Loop | Parallel) -> bool:
        """Whether a graph can hold all of a loop or of parallel branches."""
        if isinstance(block, Loop) and not (
            isinstance(fold(block.bound), Const) and block.condition is None and block.until is None
        ):
            return False
        ranks: set[tuple[int, ...]] = set()
        for statement in (s for inner in blocks_of(block) for s in inner):
            match statement:
                case Call():
                    if self.reason(statement) is not None:
                        return False
                    ranks.add(statement.ranks)
                case Loop() | Parallel():
                    if not self.is_whole(statement):
                        return False
                    calls = (s for s in statements_of((statement,)) if isinstance(s, Call))
                    ranks.update(call.ranks for call in calls)
                case Assign() | Send() | Emit():
                    pass
                case _:
                    return False
        return len(ranks) == 1

    def end_run(self) -> None:
        if self.run:
            placement = self.program.placement
            assert placement is not None
            rank = self.run[0].home
            # Each copy of a rank has its part of the requests.
            copies = 1 + sum(1 for copy in placement.copies if copy.rank == rank)
            self.regions.append(
                Region(
                    name=f"{self.name}.{len(self.regions)}",
                    rank=rank,
                    walk=self.name,
                    sites=tuple(call.site for call in self.run),
                    buckets=buckets_for(ceil(placement.max_requests / copies)),
                )
            )
            self.run = []


def _report(program: Program, uncaptured: list[Uncaptured], context: PassContext) -> None:
    nodes = {node.name: node for node in program.nodes}
    calls = {
        call.site: (call, types) for _, types, body in types_in(program) for call in _calls(body)
    }
    repeated = _repeated_sites(program)
    for left in uncaptured:
        call, types = calls[left.site]
        node = nodes[call.node]
        op = next(op for op in node.ops if op.name == call.op)
        if node.engine == "host":
            continue
        if left.site not in repeated and has_free_length(node, op, call, types):
            continue
        where = "called in every pass" if left.site in repeated else "called once"
        diagnostic = Diagnostic(
            code="MS0701",
            message=f"`{call.node}.{call.op}` is in no capture region",
            primary=Label(span=call.span, text=left.reason),
            notes=(
                f"graphs are required, and it is {where}: only a call outside of loops whose sizes "
                "differ, such as a prompt's, may run without one",
            ),
            helps=("give it one size: a number or a value of config in place of the free dim",)
            if has_free_length(node, op, call, types)
            else ("take `--require-graphs` away: the report lists what runs call by call",),
        )
        context.sink.report(diagnostic)


def _repeated_sites(program: Program) -> set[str]:
    """The calls in loops and for every chunk of a stream, also in walks that are run there."""
    bodies = {walk.name: walk.body for walk in program.walks}
    inner: list[Body] = []
    for _, body in bodies_of(program):
        for statement in statements_of(body):
            if isinstance(statement, Loop | Each):
                inner.append(statement.body)
    sites: set[str] = set()
    while inner:
        for statement in statements_of(inner.pop()):
            if isinstance(statement, Call):
                sites.add(statement.site)
            elif isinstance(statement, Run) and statement.walk in bodies:
                inner.append(bodies.pop(statement.walk))
    return sites


def _calls(body: Body) -> list[Call]:
    return [statement for statement in statements_of(body) if isinstance(statement, Call)]
