"""The routes of `mstarc serve` with a model that answers at once, and the framework's alone."""

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from mstarc_runtime.conductor import Conductor
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.loader import load_placement, load_plan
from mstarc_runtime.request import PreparedRequest
from mstarc_runtime.server.app import app_of
from mstarc_runtime.server.keys import Keys
from mstarc_runtime.server.limits import Limits
from mstarc_runtime.server.live import Live
from mstarc_runtime.server.ranks_thread import Job, RanksThread
from mstarc_runtime.server.service import Service

REPLY = "hello"
# What a request for "flood" is sent: seconds of sound, in pieces of one.
FLOOD_S = 200
_RATE = 24_000


class NullConductor:
    """Answers as soon as it is asked."""

    def __init__(self) -> None:
        self._number = 0

    def submit(self, prepared: PreparedRequest, live: Live, **given: Any) -> int:
        self._number += 1
        if prepared.inputs.get("prompt") == "flood":
            second = np.zeros(_RATE, np.float32)
            for _ in range(FLOOD_S):
                live.sound("song", second, _RATE)
        else:
            live.text("reply", REPLY)
        live.finished()
        return self._number

    def cancel(self, number: int) -> None:
        """It is over already."""


class NullRanks:
    """Ranks that are always ready. `is_later`: they answer in asyncio's next turn, not at once."""

    state = "ready"
    failure = missing = blocked = None
    restarts = 0

    def __init__(self, *, is_later: bool = False) -> None:
        self._conductor = cast(Conductor, NullConductor())
        self._is_later = is_later

    @property
    def turned_s(self) -> float:
        return time.monotonic()

    def call(self, job: Job, otherwise: Callable[[RuntimeFailure], None]) -> None:
        if self._is_later:
            asyncio.get_running_loop().call_soon(job, self._conductor)
        else:
            job(self._conductor)


def null_app(folder: Path, *, is_later: bool = False) -> Starlette:
    """The application of a plan whose ranks are not there."""
    plan = load_plan(folder)
    placement = load_placement(plan, "cpu")
    limits = Limits(queue=100_000, body_bytes=64_000_000, unread_bytes=64_000_000)
    service = Service(plan, placement, cast(RanksThread, NullRanks(is_later=is_later)), limits)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield

    return app_of(service, Keys(), lifespan)


def bare_app() -> Starlette:
    """One route that reads the same JSON and answers with the same, an id in its head too."""

    async def generate(request: Request) -> JSONResponse:
        content = await request.json()
        assert content["inputs"]["prompt"]
        outputs = {"reply": {"type": "text", "text": REPLY}}
        usage = {"text_tokens": 0}
        answer = {"model": "hello_stream", "outputs": outputs, "usage": usage}
        return JSONResponse(answer, headers={"x-request-id": secrets.token_hex(16)})

    return Starlette(routes=[Route("/generate", generate, methods=["POST"])])
