"""Chunks are a function of the item sequence: no arrival pattern changes, loses or repeats one."""

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from mstarc.ir.chunks import Chunk, Closed, Cursor, Event, History, keeps_from, next_event
from mstarc.ir.graph import Policy, Tail
from tests.support.examples import examples

Handed = tuple[int, int, int, int]

POLICIES = st.one_of(
    st.builds(Policy, kind=st.just("fixed"), size=st.integers(1, 6)),
    st.integers(1, 6).flatmap(
        lambda window: st.builds(
            Policy, kind=st.just("sliding"), size=st.just(window), stride=st.integers(1, window)
        )
    ),
    st.builds(
        Policy,
        kind=st.just("left_context"),
        size=st.integers(1, 5),
        context=st.integers(0, 8),
        ramp=st.lists(st.integers(1, 5), max_size=3).map(tuple),
    ),
    st.builds(Policy, kind=st.just("until"), size=st.integers(1, 6)),
)
TAILS = st.sampled_from([Tail(kind="drop"), Tail(kind="short"), Tail(kind="pad", value=0)])


def stops(item: int) -> bool:
    return item % 5 == 3


def all_at_once(policy: Policy, tail: Tail, count: int) -> list[Handed]:
    """The eager reference: straight from the table of the language page."""
    items = list(range(count))
    chunks: list[Handed] = []
    start = covered = 0
    while True:
        number = len(chunks)
        size = policy.ramp[number] if number < len(policy.ramp) else policy.size
        size = min(size, *(i + 1 - start for i in items[start:] if is_stop(policy, i)), size)
        if start + size > count:
            break
        begin = start - min(policy.context, start) if policy.kind == "left_context" else start
        end = start + size
        chunks.append((begin, max(covered, start) - begin, end - max(covered, start), 0))
        start = start + policy.stride if policy.kind == "sliding" else end
        covered = end
    if covered < count and tail.kind != "drop":
        begin = start - min(policy.context, start) if policy.kind == "left_context" else start
        padding = size - (count - start) if tail.kind == "pad" else 0
        fresh_from = max(covered, start)
        chunks.append((begin, fresh_from - begin, count - fresh_from, padding))
    return chunks


def is_stop(policy: Policy, item: int) -> bool:
    return policy.kind == "until" and stops(item)


@dataclass(slots=True)
class Reader:
    """Takes what it can whenever it is asked."""

    take: Callable[[Cursor], tuple[Event, Cursor] | None]
    cursor: Cursor
    chunks: list[Handed]
    closes: int = 0

    def read(self, most: int) -> None:
        for _ in range(most):
            found = self.take(self.cursor)
            if found is None or self.closes:
                return
            event, self.cursor = found
            if isinstance(event, Chunk):
                self.chunks.append((event.offset, event.context, event.fresh, event.padding))
            elif isinstance(event, Closed):
                self.closes += 1


@settings(max_examples=examples(200), deadline=None)
@given(POLICIES, TAILS, st.lists(st.tuples(st.integers(0, 7), st.integers(0, 4)), max_size=14))
def test_chunks_depend_on_items_alone(
    policy: Policy, tail: Tail, bursts: list[tuple[int, int]]
) -> None:
    history = History()
    reader = Reader(lambda c: next_event(policy, tail, c, history, stops), Cursor(), [])
    for put, taken in bursts:
        count = len(history.items)
        history.items.extend(range(count, count + put))
        reader.read(taken)
        # What a reader may still be given is what its buffer has to hold.
        kept = count + put - keeps_from(policy, reader.cursor)
        assert kept >= 0
    history.closed = True
    reader.read(1000)
    count = len(history.items)
    assert reader.closes == 1
    assert reader.chunks == all_at_once(policy, tail, count)
    fresh = [
        item
        for offset, context, new, _ in reader.chunks
        for item in range(offset + context, offset + context + new)
    ]
    assert fresh == list(range(len(fresh)))
    if tail.kind != "drop":
        assert len(fresh) == count
    offsets = [offset for offset, _, _, _ in reader.chunks]
    assert offsets == sorted(offsets)
