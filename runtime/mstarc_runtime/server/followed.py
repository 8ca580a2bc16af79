"""What is noted of a request from its coming to its end, for metrics, logs, traces and the page."""

import time
from dataclasses import dataclass, field
from typing import Any

from mstarc_runtime.request_times import RequestTimes
from mstarc_runtime.server.calls import Call, current_call
from mstarc_runtime.server.live import Live


@dataclass(slots=True, kw_only=True, eq=False)
class Followed:
    """A request that was taken, and the HTTP call that it belongs to, if there is one."""

    route: str
    live: Live
    call: Call | None = field(default_factory=current_call)
    times: RequestTimes = field(default_factory=RequestTimes)
    began_s: float = field(default_factory=time.monotonic)
    first_output_s: float | None = None
    ended_s: float | None = None

    @property
    def id(self) -> str:
        return "" if self.call is None else self.call.id

    @property
    def outcome(self) -> str:
        """How it has ended."""
        if self.live.failure is not None:
            return "failed"
        return "cancelled" if self.live.was_cancelled else "finished"

    @property
    def seconds(self) -> float:
        """Since it came, or from its coming to its end."""
        return (time.monotonic() if self.ended_s is None else self.ended_s) - self.began_s

    @property
    def sound_s(self) -> float:
        """Seconds of sound made."""
        playing = self.live.playing
        return sum([each.sound_s for each in list(playing.values())]) if playing else 0.0

    def shown(self) -> dict[str, Any]:
        """What who watches sees of it."""
        return {
            "number": self.live.number,
            "id": self.id,
            "route": self.route,
            "state": "runs" if self.times.admitted_ns else "waits",
            "age_s": round(self.seconds, 3),
            "first_output_s": self.first_output_s,
            "tokens": self.live.tokens,
            "sound_s": round(self.sound_s, 3),
        }
