"""Machines that wait for one another, which no single machine shows.

The pass size-chunk-buffers reports them (MS0415, MS0416) when a plan is made. A spec whose streams
connect its machines as a tree can have none, and then nothing is lowered for it.
"""

from dataclasses import replace

from mstarc.diagnostics import DiagnosticSink
from mstarc.typecheck import Typed


def has_circle(typed: Typed) -> bool:
    """Whether streams, seen without direction, connect two machines in more than one way."""
    group = {name: name for name in typed.resolved.symbols.machines}

    def find(name: str) -> str:
        while group[name] != name:
            name = group[name]
        return name

    for stream in typed.streams.values():
        ends = [find(end) for end in (stream.producer, stream.consumer) if end in group]
        if len(ends) < 2:
            continue
        if ends[0] == ends[1]:
            return True
        group[ends[0]] = ends[1]
    return False


def report_circles(typed: Typed, sink: DiagnosticSink) -> None:
    """Report circles of machines, and streams that may fill up, wherever the spec may run."""
    from mstarc.deployment import parse_devices
    from mstarc.ir.decisions import Placement
    from mstarc.lowering import lower
    from mstarc.passes.canonicalize import canonicalize
    from mstarc.passes.context import PassContext
    from mstarc.passes.size_chunk_buffers import size_chunk_buffers

    devices = parse_devices("cpu")
    assert devices is not None
    context = PassContext(sink=sink, devices=devices)
    program = canonicalize(lower(typed), context)
    # Who waits for whom depends on no device: the placement only says how long a request may be.
    anywhere = Placement(
        name="anywhere",
        devices=(),
        assignments=(),
        source="automatic",
        max_requests=1,
        max_tokens=devices.kind.max_tokens,
    )
    size_chunk_buffers(replace(program, placement=anywhere), context)
