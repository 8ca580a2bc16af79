"""Requests that are not over, as the conductor sees them, and who they are done for."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.plan_api import Admission
from mstarc_runtime.request import PreparedRequest
from mstarc_runtime.request_times import RequestTimes


class Listener(Protocol):
    """Who a request is done for."""

    def text(self, output: str, piece: str) -> None: ...

    def sound(self, output: str, samples: NDArray[np.float32], rate: int) -> None: ...

    def value(self, output: str, value: Any) -> None: ...

    def finished(self) -> None: ...

    def failed(self, failure: RuntimeFailure) -> None: ...

    def cancelled(self) -> None: ...


@dataclass(slots=True, kw_only=True, eq=False)
class ActiveRequest:
    """A request that waits for a slot or holds one."""

    number: int
    prepared: PreparedRequest
    admission: Admission
    listener: Listener
    # Told of outputs that become text how many tokens have come.
    on_tokens: Callable[[str, int], None] | None = None
    # Of outputs that become text: rows that were read before their first token, where it is known.
    read: dict[str, int] = field(default_factory=dict)
    times: RequestTimes = field(default_factory=RequestTimes)
    slot: int = -1
    machines: set[str] = field(default_factory=set)
    # The process of each rank, and the processes that have not released the request.
    where: Mapping[int, int] = field(default_factory=dict)
    processes: set[int] = field(default_factory=set)
    # Processes of it that were lost and have no successor yet; whether its listener knows its end.
    lost: set[int] = field(default_factory=set)
    is_told: bool = False
    is_ending: bool = False
    is_cancelled: bool = False
    failure: RuntimeFailure | None = None
    # Tokens that wait to become text, by output; None behind the last one ends the text.
    tokens: dict[str, deque[Any]] = field(default_factory=dict)
    is_reading: bool = False
    ended: set[str] = field(default_factory=set)

    @property
    def is_known_whole(self) -> bool:
        """Whether all of the answer has been handed over once all machines are done: nothing is
        left to become text, nor of what the ranks have noted, and no other rank's output is on its
        way."""
        return len(self.processes) == 1 and not self.tokens and not self.times.is_traced
