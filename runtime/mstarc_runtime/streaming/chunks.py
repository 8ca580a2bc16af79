"""Where a stream's chunks begin and end: the meaning of every chunk policy, for one request.

Counts of items, end flags and the close → chunks. Nothing here holds an item, and nothing depends
on when items arrive: `Cutter` is told of items in any portions and cuts the same chunks.

A sliding window's tail holds the items from the next window's start; `context` counts those of them
that a window has covered already, so that every item is `fresh` in exactly one chunk.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from mstarc_runtime.plan_api import Policy

NEVER = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Items `offset` .. `offset + context + fresh`, then `padding` rows of the policy's pad value.

    `context` items were handed over before, `fresh` ones were not.
    """

    offset: int
    context: int
    fresh: int
    padding: int = 0

    @property
    def items(self) -> int:
        return self.context + self.fresh

    @property
    def length(self) -> int:
        """Rows that the reader sees."""
        return self.context + self.fresh + self.padding


class Cutter:
    """The cursor of one request in one stream."""

    __slots__ = (
        "_chunks",
        "_covered",
        "_ends",
        "_marks",
        "_policy",
        "_start",
        "_tail_taken",
        "closed",
        "sent",
    )

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._start = 0  # of the next chunk's fresh items, or of the next window
        self._covered = 0  # items before this one were handed over
        self._chunks = 0
        self._ends: deque[int] = deque()
        # (items before it, name), in order, those that the reader has not passed.
        self._marks: deque[tuple[int, str]] = deque()
        self._tail_taken = False
        self.sent = 0
        self.closed = False

    @property
    def is_untouched(self) -> bool:
        return not (self.sent or self.closed or self._marks)

    @property
    def policy(self) -> Policy:
        return self._policy

    @property
    def is_plain(self) -> bool:
        """Whether nothing but the policy's size decides where the next chunk ends."""
        return not (self.closed or self._ends or self._marks)

    @property
    def fires_at(self) -> int:
        """The count of sent items at which the next chunk is complete."""
        end = self._start + self._size()
        if self._ends and self._policy.kind == "until":
            end = min(end, self._ends[0] + 1)
        if self._marks and self._marks[0][0] > self._covered:
            end = min(end, self._marks[0][0])
        return end

    @property
    def keeps_from(self) -> int:
        """Items before this one will not be read again."""
        if self._tail_taken:
            return self.sent
        if self._policy.kind == "left_context":
            return max(0, self._start - self._policy.context)
        return self._start

    @property
    def is_ready(self) -> bool:
        """Whether a chunk can be taken now."""
        return self.sent >= self.fires_at or (self.closed and self._has_tail())

    @property
    def is_drained(self) -> bool:
        """Closed, and nothing left to take."""
        return self.closed and not self.is_ready

    @property
    def is_empty(self) -> bool:
        """Closed without an item."""
        return self.closed and self.sent == 0

    def put(self, count: int, ends: Iterable[int] = ()) -> None:
        """`count` items more; `ends` are those of them (0 ..) that end a chunk."""
        assert not self.closed, "an item was sent after the close"
        self._ends.extend(self.sent + index for index in ends)
        self.sent += count

    def mark(self, name: str) -> None:
        """A mark behind all items so far: it ends the chunk before it."""
        assert not self.closed, "a mark was set after the close"
        self._marks.append((self.sent, name))

    def cut_by(self, policy: Policy, until: str | None = None) -> bool:
        """The next chunks are cut by `policy`. Whether a mark named `until` is reached.

        Marks before which nothing is left are passed, as far as that one.
        """
        self._policy = policy
        while self._marks and self._marks[0][0] <= self._covered:
            if self._marks[0][1] == until:
                return True
            self.pass_mark()
        return False

    def pass_mark(self) -> None:
        """The reader goes on behind the next mark, before which nothing is left."""
        position, _ = self._marks.popleft()
        self._start = max(self._start, position)

    def pull(self) -> Chunk | None:
        """One item that no read has handed over, marks before it being passed; or none."""
        at = self._covered
        self.cut_by(self._policy)
        if at >= self.sent:
            return None
        self._start = self._covered = at + 1
        while self._ends and self._ends[0] <= at:
            self._ends.popleft()
        return Chunk(offset=at, context=0, fresh=1)

    @property
    def pulls_at(self) -> int:
        """The count of sent items at which `pull` has one."""
        return self._covered + 1

    @property
    def pulls_left(self) -> int:
        """How often `pull` may be called before something is sent: as often as one likes behind
        the close."""
        return NEVER if self.closed else self.sent - self._covered

    @property
    def pulls_plainly(self) -> bool:
        """Whether `pull` meets items alone, and keeps none that it has handed over."""
        kept = self._tail_taken or self._policy.kind == "left_context"
        return not (kept or self._ends or self._marks)

    def pulled_to(self, count: int) -> None:
        """As many items as that were pulled, plainly: as `pull`, so often."""
        if count > self._covered:
            self._start = self._covered = count

    def behind(self) -> "Cutter":
        """This cursor behind the next chunk, which `is_ready`."""
        ahead = Cutter(self._policy)
        ahead._start, ahead._covered, ahead._chunks = self._start, self._covered, self._chunks
        ahead._ends, ahead._marks = deque(self._ends), deque(self._marks)
        ahead._tail_taken, ahead.sent, ahead.closed = self._tail_taken, self.sent, self.closed
        ahead.take()
        return ahead

    def close(self) -> None:
        assert not self.closed, "a stream was closed twice"
        self.closed = True

    def peek(self) -> Chunk:
        """The next chunk, which `is_ready`."""
        if self.sent >= self.fires_at:
            return self._full()
        assert self.is_ready, "no chunk is ready"
        return self._tail()

    def take(self) -> Chunk:
        """The next chunk, which `is_ready`; the cursor moves on."""
        policy = self._policy
        start, size = self._start, policy.size
        is_cut = bool(self._marks) or (bool(self._ends) and self._ends[0] < start + size)
        if policy.kind == "sliding" and self.sent >= start + size and not is_cut:
            # The common case, in few words.
            context = max(0, self._covered - start)
            self._start, self._covered = start + policy.stride, start + size
            self._chunks += 1
            return Chunk(offset=start, context=context, fresh=size - context)
        chunk = self.peek()
        end = chunk.offset + chunk.items
        self._tail_taken = self.sent < self.fires_at
        while self._ends and self._ends[0] < end:
            self._ends.popleft()
        is_whole_window = policy.kind == "sliding" and end == start + size
        self._start = start + policy.stride if is_whole_window else end
        self._covered = end
        self._chunks += 1
        return chunk

    def _size(self) -> int:
        ramp = self._policy.ramp
        return ramp[self._chunks] if self._chunks < len(ramp) else self._policy.size

    def _context(self) -> int:
        """How many items before the next chunk's fresh ones it repeats."""
        if self._policy.kind == "sliding":
            return max(0, self._covered - self._start)
        return min(self._policy.context, self._start) if self._policy.kind == "left_context" else 0

    def _full(self) -> Chunk:
        context, end = self._context(), self.fires_at
        offset = self._start if self._policy.kind == "sliding" else self._start - context
        return Chunk(offset=offset, context=context, fresh=end - offset - context)

    def _has_tail(self) -> bool:
        left = self.sent - max(self._covered, self._start)
        return left > 0 and not self._tail_taken and self._policy.tail in ("short", "pad")

    def _tail(self) -> Chunk:
        context = self._context()
        is_window = self._policy.kind == "sliding"
        offset = self._start if is_window else self._start - context
        fresh = self.sent - offset - context
        wanted = self._size() if is_window else context + self._size()
        padding = max(0, wanted - context - fresh) if self._policy.tail == "pad" else 0
        return Chunk(offset=offset, context=context, fresh=fresh, padding=padding)
