"""What there is to see of a running server, for its page and `mstarc top`: `/debug/live`.

One frame says how the server and its workers are, where each request is, and what has been counted.
JSON once, or as events several times a second to whoever accepts those; ranks are asked only while
somebody watches, and one that is busy for longer is shown as it was.
"""

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mstarc_runtime.loader import ProcessFacts
from mstarc_runtime.messages import Told
from mstarc_runtime.server.streaming import EVENTS, Pieces, Stream, event

if TYPE_CHECKING:
    from mstarc_runtime.server.service import Service

ROUTE: Final = "/debug/live"
_EVERY_S = 0.15
# A worker that has not answered for so long is called silent.
_SILENT_S = 2.0
# For how long workers tell of themselves after somebody has looked.
_LASTS_S = 1.0


@dataclass(slots=True, kw_only=True)
class Seen:
    """What workers have told last, and when: seconds of the monotonic clock."""

    told: dict[int, Told] = field(default_factory=dict)
    when_s: dict[int, float] = field(default_factory=dict)
    asked_s: float | None = None

    def take(self, told: dict[int, Told], now_s: float) -> None:
        for process, said in told.items():
            if self.told.get(process) is not said:
                self.told[process] = said
                self.when_s[process] = now_s

    def answers(self, process: int, now_s: float) -> bool:
        """Whether it has said something lately."""
        return now_s - self.when_s.get(process, float("-inf")) < _SILENT_S


class Watch:
    """Frames, made at most every 150 ms however many look. In asyncio's thread."""

    def __init__(self, service: "Service") -> None:
        self._service = service
        self._seen = Seen()
        self._number = 0
        self._made_s = self._looked_s = float("-inf")
        self._frame: dict[str, Any] = {}
        self._making: asyncio.Task[dict[str, Any]] | None = None

    @property
    def lasts_s(self) -> float:
        """For how long workers are to tell of themselves: 0 where nobody watches."""
        return _LASTS_S if time.monotonic() - self._looked_s < _LASTS_S else 0.0

    async def frame(self) -> dict[str, Any]:
        """How all is now, or was a moment ago."""
        self._looked_s = time.monotonic()
        if self._looked_s - self._made_s < _EVERY_S:
            return self._frame
        if self._making is None or self._making.done():
            self._making = asyncio.create_task(self._make())
        return await asyncio.shield(self._making)

    async def frames(self) -> Pieces:
        """Events, until the server ends."""
        last = -1
        while True:
            frame = await self.frame()
            if frame["frame"] != last:
                last = frame["frame"]
                yield event(frame)
            if self._service.state in ("draining", "ended"):
                return
            await asyncio.sleep(_EVERY_S)

    async def _make(self) -> dict[str, Any]:
        service, seen = self._service, self._seen
        told = await service.told_lately()
        now_s = time.monotonic()
        seen.take(told, now_s)
        self._number += 1
        self._frame = {
            "frame": self._number,
            "time_s": time.time(),
            "model": service.plan.model,
            "placement": service.placement.name,
            "state": service.state,
            "slots": service.placement.max_requests,
            "queue": service.limits.queue,
            "requests": service.requests(),
            "workers": [self._worker(facts, now_s) for facts in service.placement.processes],
            "totals": service.metrics.totals(),
        }
        self._made_s = time.monotonic()
        return self._frame

    def _worker(self, facts: ProcessFacts, now_s: float) -> dict[str, Any]:
        process, seen = facts.process, self._seen
        entry: dict[str, Any] = {
            "process": process,
            "rank": facts.rank,
            "copy": facts.copy,
            "device": self._service.placement.devices[facts.device],
            "answers": seen.answers(process, now_s),
            "steps": {},
            "rows": {},
            "pages": {},
            "counts": {},
        }
        said = seen.told.get(process)
        if said is not None:
            now = json.loads(said.now)
            entry |= {"steps": now["steps"], "rows": now["rows"], "counts": now["counts"]}
            kv = json.loads(said.held)["kv"]
            entry["pages"] = {
                node: {"used": cache["used_pages"], "free": cache["free_pages"]}
                for node, cache in kv.items()
            }
        return entry


async def live(request: Request, service: "Service") -> Response:
    """One frame, or all that come."""
    if "text/event-stream" not in request.headers.get("accept", ""):
        return JSONResponse(await service.watch.frame(), headers={"cache-control": "no-store"})
    return Stream(b": frames\n\n", service.watch.frames(), EVENTS, end=lambda: None)
