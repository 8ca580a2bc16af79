"""Run the passes in their order, and the verifier before the first and after each.

`PIPELINE` is the order. A pass that reports an error ends the run: `run_pipeline` gives None and
the sink says why. `observe` sees the program after each pass, with the seconds that it took.
"""

from collections.abc import Callable
from time import perf_counter

from mstarc.diagnostics import InternalError
from mstarc.ir.graph import Program
from mstarc.ir.verify import verify
from mstarc.passes.canonicalize import canonicalize
from mstarc.passes.context import PassContext, PassEntry
from mstarc.passes.find_capture_regions import find_capture_regions
from mstarc.passes.partition import partition
from mstarc.passes.place import place
from mstarc.passes.plan_memory import plan_memory
from mstarc.passes.size_chunk_buffers import size_chunk_buffers
from mstarc.passes.split_optional_arguments import split_optional_arguments

PIPELINE: tuple[PassEntry, ...] = (
    # First: costs and regions should not count what can never run.
    PassEntry(name="canonicalize", run=canonicalize),
    # Before placement and regions: its choices are steps of their own.
    PassEntry(name="split-optional-arguments", run=split_optional_arguments),
    PassEntry(name="place", run=place),
    # After placement: hops are edges between ranks.
    PassEntry(name="partition", run=partition),
    # After placement: a capture region may not span ranks.
    PassEntry(name="find-capture-regions", run=find_capture_regions),
    PassEntry(name="size-chunk-buffers", run=size_chunk_buffers),
    # Last: it counts hops, regions and rings.
    PassEntry(name="plan-memory", run=plan_memory),
)

BEFORE_PLACEMENT = PIPELINE[1].name
"""The last pass that is the same wherever a program runs."""

Observer = Callable[[str, Program, float], None]


def pass_names() -> tuple[str, ...]:
    """The names of the passes, in order."""
    return tuple(entry.name for entry in PIPELINE)


def run_pipeline(
    program: Program,
    context: PassContext,
    *,
    start_after: str | None = None,
    stop_after: str | None = None,
    observe: Observer | None = None,
) -> Program | None:
    """The program after all passes, or after the one named `stop_after`; None after an error.

    With `start_after`, `program` is what this pass has made.
    """
    assert stop_after is None or stop_after in pass_names(), stop_after
    begin = 0
    if start_after is not None:
        begin = pass_names().index(start_after) + 1
    else:
        verify(program, stage="lowering")
    for entry in PIPELINE[begin:]:
        result = run_pass(entry, program, context, observe=observe)
        if result is None:
            return None
        program = result
        if entry.name == stop_after:
            break
    return program


def run_pass(
    entry: PassEntry, program: Program, context: PassContext, *, observe: Observer | None = None
) -> Program | None:
    """The program after one pass, verified; None where the pass reported an error."""
    start = perf_counter()
    before = program
    try:
        program = entry.run(program, context)
    except InternalError:
        raise
    except (AssertionError, KeyError, IndexError, ValueError) as error:
        raise InternalError(f"{type(error).__name__}: {error}", stage=entry.name) from error
    seconds = perf_counter() - start
    if context.sink.has_errors:
        return None
    verify(program, stage=entry.name, known=before)
    if observe is not None:
        observe(entry.name, program, seconds)
    return program
