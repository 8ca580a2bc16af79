"""The chunks that an `each` reads of one stream, waiting where there is none yet."""

from collections.abc import Callable, Generator
from typing import Any, Final

from mstarc.ir.chunks import Chunk, Closed, Marked, next_event
from mstarc.ir.exprs import Expr
from mstarc.ir.graph import Each
from mstarc.ir.interpret.evaluate import Scope
from mstarc.ir.interpret.streams import Channel

BLOCKED: Final = "blocked"
Steps = Generator[str | None, None, None]


class ChunkReads:
    """The chunks of one stream in an `each`: `next` leaves one in `content`, or sets `ended`."""

    def __init__(
        self, value: Callable[[Expr, Scope], Any], channel: Channel, each: Each, scope: Scope
    ) -> None:
        self.value = value
        self.channel = channel
        self.policy = each.policy or channel.stream.policy
        self.until = each.until
        self.scope = scope
        self.content: Any = None
        self.ended = False

    def stops(self, item: Any) -> bool:
        if self.policy.stop is None:
            return False
        inner = self.scope.inside()
        inner.values["item"] = item
        return bool(self.value(self.policy.stop, inner))

    def next(self) -> Steps:
        channel = self.channel
        channel.policy = self.policy
        tail = channel.stream.tail
        while not self.ended:
            found = next_event(self.policy, tail, channel.cursor, channel.history, self.stops)
            if found is None:
                yield BLOCKED
                continue
            event, channel.cursor = found
            match event:
                case Chunk():
                    self.content = channel.handed_over(event, self.policy)
                    return
                case Marked(mark=mark):
                    self.ended = mark == self.until
                case Closed():
                    self.ended = True
