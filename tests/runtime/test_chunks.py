"""What chunks hold is a function of the items alone: every policy against its definition."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mstarc_runtime.plan_api import Policy
from mstarc_runtime.streaming.chunks import Cutter


@dataclass(frozen=True)
class Expected:
    """A chunk by definition: items, how many of them are context, and padding."""

    first: int
    context: int
    fresh: int
    padding: int = 0


def chunks_by_definition(policy: Policy, count: int, ends: frozenset[int]) -> list[Expected]:
    """All chunks of `count` items, cut at once from the whole sequence."""
    found: list[Expected] = []
    start = covered = 0
    while True:
        size = policy.ramp[len(found)] if len(found) < len(policy.ramp) else policy.size
        end = start + size
        if policy.kind == "until":
            early = [e + 1 for e in range(start, min(end, count)) if e in ends]
            end = early[0] if early else end
        if end > count:
            break
        context = {
            "sliding": max(0, covered - start),
            "left_context": min(policy.context, start),
        }.get(policy.kind, 0)
        first = start if policy.kind == "sliding" else start - context
        found.append(Expected(first, context, end - first - context))
        covered = end
        start = start + policy.stride if policy.kind == "sliding" else end
    left = count - max(covered, start)
    if left <= 0 or policy.tail in (None, "drop"):
        return found
    if policy.kind == "sliding":
        context, first, wanted = max(0, covered - start), start, policy.size
    else:
        context = min(policy.context, start) if policy.kind == "left_context" else 0
        first, wanted = start - context, context + size
    fresh = count - first - context
    padding = wanted - context - fresh if policy.tail == "pad" else 0
    return [*found, Expected(first, context, fresh, padding)]


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    kind = draw(st.sampled_from(["fixed", "sliding", "left_context", "until"]))
    size = draw(st.integers(1, 8))
    tail = draw(st.sampled_from(["drop", "short", "pad"]))
    pad = 0 if tail == "pad" else None
    if kind == "sliding":
        stride = draw(st.integers(1, size))
        return Policy(kind="sliding", size=size, stride=stride, tail=tail, pad=pad)
    if kind == "left_context":
        context = draw(st.integers(0, 12))
        ramp = tuple(draw(st.lists(st.integers(1, size), max_size=3)))
        return Policy(
            kind="left_context", size=size, context=context, ramp=ramp, tail=tail, pad=pad
        )
    return Policy(kind=kind, size=size, tail=tail, pad=pad)


@settings(deadline=None)
@given(data=st.data(), policy=policies(), count=st.integers(0, 60))
def test_chunks_do_not_depend_on_when_items_come(
    data: st.DataObject, policy: Policy, count: int
) -> None:
    ends = (
        frozenset(data.draw(st.sets(st.integers(0, 59)))) if policy.kind == "until" else frozenset()
    )
    cutter = Cutter(policy)
    taken = []
    while not cutter.is_drained:
        actions = ["put"] if not cutter.closed and cutter.sent < count else []
        actions += ["take"] if cutter.is_ready else []
        actions += ["close"] if not cutter.closed and cutter.sent == count else []
        match data.draw(st.sampled_from(actions)):
            case "put":
                portion = data.draw(st.integers(1, count - cutter.sent))
                own = [e - cutter.sent for e in sorted(ends) if 0 <= e - cutter.sent < portion]
                cutter.put(portion, own)
            case "take":
                chunk = cutter.take()
                taken.append(Expected(chunk.offset, chunk.context, chunk.fresh, chunk.padding))
            case "close":
                cutter.close()
    assert taken == chunks_by_definition(policy, count, ends)
    assert [c.first for c in taken] == sorted(c.first for c in taken)
    fresh = [i for c in taken for i in range(c.first + c.context, c.first + c.context + c.fresh)]
    assert fresh == list(range(len(fresh))), "every item is fresh exactly once, in order"
    if policy.tail != "drop":
        assert len(fresh) == count


@settings(deadline=None)
@given(policy=policies(), count=st.integers(0, 60))
def test_what_a_reader_still_needs_is_bounded(policy: Policy, count: int) -> None:
    cutter = Cutter(policy)
    bound = policy.size + policy.context + policy.stride
    for _ in range(count):
        cutter.put(1)
        while cutter.is_ready:
            cutter.take()
        assert cutter.sent - cutter.keeps_from <= bound


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 12, 11, 13])
@pytest.mark.parametrize("portion", [1, 3])
@pytest.mark.parametrize("kind", ["fixed", "sliding", "left_context"])
def test_a_stream_closes_once_and_nothing_fires_after_but_the_tail(
    kind: str, portion: int, count: int
) -> None:
    policy = Policy(kind=kind, size=4, stride=2, context=6, tail="short")  # type: ignore[arg-type]
    cutter = Cutter(policy)
    before = 0
    while cutter.sent < count:
        cutter.put(min(portion, count - cutter.sent))
        while cutter.is_ready:
            cutter.take()
            before += 1
    cutter.close()
    tails = 0
    while cutter.is_ready:
        cutter.take()
        tails += 1
    assert cutter.is_drained
    assert tails <= 1
    assert cutter.is_empty == (count == 0)
    with pytest.raises(AssertionError, match="closed twice"):
        cutter.close()
    with pytest.raises(AssertionError, match="after the close"):
        cutter.put(1)


def test_context_may_exceed_the_chunk() -> None:
    cutter = Cutter(Policy(kind="left_context", size=4, context=6, tail="short"))
    cutter.put(13)
    cutter.close()
    chunks = []
    while cutter.is_ready:
        chunks.append(cutter.take())
    assert [(c.offset, c.context, c.fresh) for c in chunks] == [
        (0, 0, 4),
        (0, 4, 4),
        (2, 6, 4),
        (6, 6, 1),
    ]


def test_a_ramp_makes_the_first_chunks_small() -> None:
    cutter = Cutter(Policy(kind="left_context", size=25, context=25, ramp=(4, 8, 16), tail="drop"))
    cutter.put(100)
    sizes = []
    while cutter.is_ready:
        sizes.append(cutter.take().fresh)
    assert sizes == [4, 8, 16, 25, 25]
