"""Give every stream a capacity, and show that no machine waits for ever.

Before:  stream codes : i64 chunk sliding(window = 28, stride = 7) from speak to vocoder
After:   stream codes : i64 chunk sliding(window = 28, stride = 7) from speak to vocoder capacity 35

A read holds `span` items until it fires (a window; a chunk and its context; the most of an
`until`; 1 of a `pull`) and then lets `step` of them go (the stride; the chunk; 1); `last` holds one
chunk more back. With the producer's `burst`, the most items that a step sends (a step may hold
several sends, and a loop of a known number of passes),

    capacity = max(span + step, span + burst - 1), rounded up to a multiple of the burst,

for the read that needs most, plus twice what a stretch of passes sends (`plan.stretch`): so much
is under way before the reader has read. Then a producer never waits for a reader that keeps up, and
a reader that waits leaves room for one more burst.

No machine waits for ever: machines and streams without a cycle cannot, since a producer that waits
for room and a reader that waits for items would have to share a stream, and the capacity above
excludes that. Streams on a cycle of machines, seen without direction, get room for all that a
request can send, so that nobody waits for room there (MS0416 where nothing bounds that). Machines
that read from one another in a circle are refused (MS0415).

Afterwards every stream has a capacity. Not here: where the rings live and what they weigh
(plan-memory), whether a consumer can take the chunks (typecheck).
"""

from dataclasses import replace

from mstarc.analysis.bounds import most_items
from mstarc.analysis.rings import ring_capacity
from mstarc.diagnostics import Diagnostic, Label
from mstarc.ir.graph import Program, Stream
from mstarc.passes.context import PassContext


def size_chunk_buffers(program: Program, context: PassContext) -> Program:
    """The program with a capacity for every stream."""
    assert program.placement is not None
    circle = _directed_cycle(program)
    if circle:
        _report_circle(circle, context)
        return program
    max_tokens = program.placement.max_tokens
    tangled = _on_undirected_cycle(program)
    streams: list[Stream] = []
    for stream in program.streams:
        capacity = ring_capacity(program, stream, max_tokens)
        if stream.name in tangled:
            most = most_items(program, stream, max_tokens)
            if most is None:
                _report_unbounded(stream, tangled, context)
                continue
            capacity = max(capacity, most)
        streams.append(replace(stream, capacity=capacity))
    if len(streams) < len(program.streams):
        return program
    return replace(program, streams=tuple(streams))


def _directed_cycle(program: Program) -> list[Stream]:
    """Streams that lead from a machine back to it, or none."""
    finished: set[str] = set()

    def visit(machine: str, path: list[Stream]) -> list[Stream]:
        on_path = [stream.producer for stream in path]
        if machine in on_path:
            return path[on_path.index(machine) :]
        if machine in finished:
            return []
        for stream in program.streams:
            if stream.producer == machine:
                found = visit(stream.consumer, [*path, stream])
                if found:
                    return found
        finished.add(machine)
        return []

    for machine in program.machines:
        found = visit(machine.name, [])
        if found:
            return found
    return []


def _on_undirected_cycle(program: Program) -> set[str]:
    """Names of streams without which their two machines are still connected."""
    return {
        stream.name
        for stream in program.streams
        if stream.consumer
        in _reached(stream.producer, [other for other in program.streams if other is not stream])
    }


def _reached(start: str, streams: list[Stream]) -> set[str]:
    seen = {start}
    pending = [start]
    while pending:
        machine = pending.pop()
        for stream in streams:
            ends = {stream.producer, stream.consumer}
            if machine in ends:
                new = ends - seen
                seen |= new
                pending.extend(sorted(new))
    return seen


def _report_circle(circle: list[Stream], context: PassContext) -> None:
    first = circle[0]
    names = [stream.producer for stream in circle]
    listed = " and ".join(f"`{name}`" for name in names)
    label = f"`{first.consumer}` reads from `{first.producer}`"
    diagnostic = Diagnostic(
        code="MS0415",
        message=f"the machines {listed} wait for one another",
        primary=Label(span=first.span, text=label),
        helps=("let the later machine begin with what the request gives, without a stream back",),
    )
    for stream in circle[1:]:
        label = f"and `{stream.consumer}` from `{stream.producer}`"
        diagnostic = diagnostic.label(stream.span, label)
    context.sink.report(diagnostic)


def _report_unbounded(stream: Stream, tangled: set[str], context: PassContext) -> None:
    others = ", ".join(f"`{name}`" for name in sorted(tangled - {stream.name}))
    message = f"stream `{stream.name}` may fill up while its reader waits for another stream"
    diagnostic = Diagnostic(
        code="MS0416",
        message=message,
        primary=Label(span=stream.span, text="nothing bounds how many items a request sends"),
        notes=(f"`{stream.producer}` and `{stream.consumer}` are also connected by {others}",),
        helps=(
            "give the options that bound the sending loop a range, or send both in one stream of "
            "tuples",
        ),
    )
    context.sink.report(diagnostic)
