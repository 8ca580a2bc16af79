"""The meaning of chunk policies: which items a read hands over, for items known so far.

Items of a stream are numbered 0, 1, 2, … in the order sent. `next_event` is a pure function of the
items, the marks between them and whether the stream is closed; what it hands over never depends on
when they came. Every item is `fresh` in at most one chunk, and in exactly one unless a tail drops
it.

    fixed(k)                 [c, c+k), then c += k
    sliding(w, s)            [c, c+w), then c += s; what an earlier window covered is `context`
    left_context(k, x)       [c - min(x, c), c+k), then c += k; a ramp gives the first k's
    until(p, max)            up to and with the first item for which p holds, at most `max`

A mark stands between two items: it ends the chunk before it, short if need be, and the next window
begins behind it. When the stream closes, the items that no chunk has handed over are the tail:
dropped, handed over as they are, or filled up with a value. The tail of a sliding window begins
where the next window would. After the tail comes the close, once, and nothing after it.
"""

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from mstarc.ir.graph import Policy, Tail
from mstarc.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Items [offset, offset + context + fresh), then `padding` times the tail's value.

    `context` items were handed over before, `fresh` ones were not.
    """

    offset: int
    context: int
    fresh: int
    padding: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """All items before a mark have been handed over."""

    mark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """The stream is closed and nothing is left."""


Event = Chunk | Marked | Closed


@dataclass(slots=True, kw_only=True)
class History:
    """What was sent: items, marks as (items before it, name), and whether that is all."""

    items: list[Any] = field(default_factory=list)
    marks: list[tuple[int, str]] = field(default_factory=list)
    closed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """How far a reader is.

    `start` begins the next window or the next fresh items; items before `covered` were handed over;
    `chunks` counts what a ramp counts; `marks` were passed.
    """

    start: int = 0
    covered: int = 0
    chunks: int = 0
    marks: int = 0


def next_event(
    policy: Policy,
    tail: Tail | None,
    cursor: Cursor,
    history: History,
    stops: Callable[[Any], bool] = lambda item: False,
) -> tuple[Event, Cursor] | None:
    """What the read gets next, and the cursor after it; None while that is not known yet.

    `stops` is the condition of an `until` policy.
    """
    count = len(history.items)
    mark = history.marks[cursor.marks] if cursor.marks < len(history.marks) else None
    if mark is not None and mark[0] <= cursor.covered:
        begin = max(cursor.start, mark[0])
        after = Cursor(
            start=begin, covered=cursor.covered, chunks=cursor.chunks, marks=cursor.marks + 1
        )
        return Marked(mark=mark[1]), after
    size = chunk_size(policy, cursor.chunks)
    ends = [cursor.start + size] if cursor.start + size <= count else []
    if policy.kind == "until":
        last = min(count, cursor.start + size)
        stop = _first(history.items, cursor.start, last, stops)
        ends.extend([stop + 1] if stop is not None else [])
    if mark is not None:
        ends.append(mark[0])
    if ends:
        end = min(ends)
        is_whole_window = policy.kind == "sliding" and end == cursor.start + size
        begin = cursor.start + policy.stride if is_whole_window else end
        return _handed_over(policy, cursor, end, begin, 0)
    if not history.closed:
        return None
    if count > cursor.covered and tail is not None and tail.kind != "drop":
        padding = size - (count - cursor.start) if tail.kind == "pad" else 0
        return _handed_over(policy, cursor, count, count, padding)
    done = Cursor(start=count, covered=count, chunks=cursor.chunks, marks=cursor.marks)
    return Closed(), done


def chunk_size(policy: Policy, chunks: int) -> int:
    """Items of a full chunk after `chunks` others: of the window, or the fresh ones."""
    return policy.ramp[chunks] if chunks < len(policy.ramp) else policy.size


def keeps_from(policy: Policy, cursor: Cursor) -> int:
    """Items before this one are never handed over again."""
    if policy.kind == "left_context":
        return max(0, cursor.start - policy.context)
    return cursor.start


def next_item(cursor: Cursor, history: History) -> tuple[Chunk | Closed, Cursor] | None:
    """What a `pull` gets: one item that no read has handed over; marks before it are passed."""
    at = cursor.covered
    marks = sum(1 for position, _ in history.marks if position <= at)
    if at < len(history.items):
        after = Cursor(start=at + 1, covered=at + 1, chunks=cursor.chunks, marks=marks)
        return Chunk(offset=at, context=0, fresh=1), after
    return (Closed(), cursor) if history.closed else None


def _first(items: Sequence[Any], start: int, end: int, stops: Callable[[Any], bool]) -> int | None:
    return next((index for index in range(start, end) if stops(items[index])), None)


def _handed_over(
    policy: Policy, cursor: Cursor, end: int, begin: int, padding: int
) -> tuple[Chunk, Cursor]:
    offset = cursor.start
    if policy.kind == "left_context":
        offset -= min(policy.context, cursor.start)
    context = max(0, max(cursor.covered, cursor.start) - offset)
    chunk = Chunk(offset=offset, context=context, fresh=end - offset - context, padding=padding)
    after = Cursor(start=begin, covered=end, chunks=cursor.chunks + 1, marks=cursor.marks)
    return chunk, after
