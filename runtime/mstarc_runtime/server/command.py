"""`mstarc serve`: loads a plan, listens, and serves it until it is told to end.

It listens from the start and takes requests when all ranks are ready. Ranks are processes that are
started again when they are lost. SIGTERM or Ctrl-C lets what runs come to its end, for
`--drain-timeout` at most; a second one ends it at once. Exit status 0: it was told to end, and all
processes are gone; 2: it could not start, or a rank was lost for good.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from mstarc_runtime.command import run_settings, say
from mstarc_runtime.errors import RuntimeFailure, render
from mstarc_runtime.launch import launched
from mstarc_runtime.loader import load_placement, load_plan, usual_placement
from mstarc_runtime.server.app import app_of
from mstarc_runtime.server.arguments import parse_serve, supervision
from mstarc_runtime.server.connections import collect_rarely, config_of, listening_at
from mstarc_runtime.server.keys import read_keys
from mstarc_runtime.server.limits import limits_of
from mstarc_runtime.server.log import Log
from mstarc_runtime.server.open_files import allow_connections
from mstarc_runtime.server.ranks_thread import RanksThread, State
from mstarc_runtime.server.service import Service
from mstarc_runtime.server.tracing import tracing_to
from mstarc_runtime.settings import read_settings

_INTERRUPTED = 130
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LOOK_S = 0.05


class _Server(uvicorn.Server):
    """Ends when it is told to, and first says that it takes no more."""

    service: Service | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            self.force_exit = True
        elif self.service is not None:
            self.service.is_draining = True
            taken = self.service.taken
            self.service.log.say(f"ending: {taken} requests go on, no more are taken", "ending")
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Lets live answers come to their end first: what follows closes their connections."""
        left_s = float(self.config.timeout_graceful_shutdown or 0)
        while self.service is not None and self.service.talking and left_s > 0:
            if self.force_exit:
                break
            await asyncio.sleep(_LOOK_S)
            left_s -= _LOOK_S
        self.config.timeout_graceful_shutdown = max(1, round(left_s))
        await super().shutdown(sockets)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves and returns the exit status."""
    try:
        return _serve(sys.argv[1:] if arguments is None else arguments)
    except RuntimeFailure as failure:
        say(render(failure))
        return 2


def _serve(arguments: Sequence[str]) -> int:
    options = parse_serve(arguments)
    log = Log(as_json=options.log_format == "json", least=options.log_level)
    keys = read_keys(options.api_keys, read_settings().api_key)
    plan = load_plan(options.plan)
    placement = load_placement(plan, options.placement or usual_placement(plan))
    settings = run_settings(options, plan, placement)
    tracing = tracing_to(options.traces, plan.model)
    allow_connections()
    listening = listening_at(options.host, options.port)
    host, port = listening.getsockname()[:2]

    def changed(state: State) -> None:
        if state == "ready":
            most = placement.max_requests
            log.say(f"{plan.model} on {placement.name}: at most {most} at once", "ready")
        elif state == "lost" and ranks.failure is not None:
            log.failure(ranks.failure, "lost")
        if state in ("lost", "ended"):
            # Without ranks there is nothing to serve.
            server.should_exit = True

    ranks = RanksThread(
        lambda: launched(
            plan,
            placement,
            settings=settings,
            progress=log.progress(),
            say=log.say,
            start_timeout_s=options.start_timeout,
            supervision=supervision(options),
        ),
        on_change=changed,
    )
    service = Service(plan, placement, ranks, limits_of(options))
    service.log, service.tracing = log, tracing

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        collect_rarely()
        ranks.start()
        shown = f"[{host}]" if ":" in host else host
        log.take_warnings()
        log.say(f"listening on http://{shown}:{port}", "listening")
        yield

    server = _Server(
        config_of(
            app_of(service, keys, lifespan),
            service.limits.patience,
            drain_s=options.drain_timeout,
        )
    )
    server.service = service
    was_lost = False
    with listening:
        signal.signal(signal.SIGHUP, server.handle_exit)
        server.run(sockets=[listening])
        service.media.close()
        was_lost = ranks.failure is not None
    tracing.close()
    return _end(ranks, log, was_lost=was_lost)


def _end(ranks: RanksThread, log: Log, *, was_lost: bool) -> int:
    """Ends the ranks; the exit status."""
    # Nothing may stop what cleans up.
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)
    if ranks.state == "starting":
        # Weights that are being loaded can't be interrupted. Ranks that are processes see that
        # their parent is gone, end, and remove their sockets.
        log.say("interrupted while weights were loaded", "ended")
        os._exit(_INTERRUPTED)
    already_ended = ranks.state == "ended"
    ranks.stop()
    if already_ended and ranks.failure is not None:
        log.failure(ranks.failure, "lost")
    if was_lost:
        return 2
    log.say("ended: all requests are over, and all processes are gone", "ended")
    return 0
