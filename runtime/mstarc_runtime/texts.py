"""Tokens of a request's outputs → text, through the ops that the plan names, one portion at a time.

Ops may keep state, so those of a request run in order: the output that began first comes first, and
a question is read to its end before its answer. What comes meanwhile waits and goes as one portion.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mstarc_runtime.active import ActiveRequest
from mstarc_runtime.engine.host import HostEngine, HostPool
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.handing_over import via_failure
from mstarc_runtime.loader import Declared


class Texts:
    """The texts of all requests.

    `failed` is told when an op fails, `read` after every portion, however it went.
    """

    def __init__(
        self,
        outputs: Mapping[str, Declared],
        via: Mapping[str, HostEngine],
        pool: HostPool,
        *,
        failed: Callable[[ActiveRequest, RuntimeFailure], None],
        read: Callable[[ActiveRequest], None],
    ) -> None:
        self._outputs = outputs
        self._via = via
        self._pool = pool
        self._failed = failed
        self._was_read = read

    @property
    def held(self) -> dict[str, int]:
        """By op's node, requests that it keeps something of."""
        return {name: engine.held for name, engine in self._via.items()}

    def take(self, request: ActiveRequest, output: Declared, value: Any) -> None:
        """Tokens have come for an output."""
        came = np.atleast_1d(np.asarray(value)).tolist()
        request.tokens.setdefault(output.name, deque()).extend(came)
        if request.on_tokens is not None:
            request.on_tokens(output.name, len(came))
        self._read(request)

    def finish(self, request: ActiveRequest) -> None:
        """No more tokens come."""
        if request.failure is not None or request.is_cancelled:
            return
        for name, tokens in request.tokens.items():
            if name not in request.ended:
                request.ended.add(name)
                tokens.append(None)
        self._read(request)

    def release(self, request: ActiveRequest) -> None:
        """A request is over."""
        for engine in self._via.values():
            engine.release(request.number)

    def _read(self, request: ActiveRequest) -> None:
        name = next((name for name, waiting in request.tokens.items() if waiting), None)
        if request.is_reading or name is None:
            return
        output, tokens = self._outputs[name], request.tokens[name]
        assert output.via is not None
        engine, op = self._via[output.via[0]], output.via[1]
        portion = list(tokens)
        tokens.clear()
        request.is_reading = True

        def work() -> str:
            with engine.using(request.number):
                read = getattr(engine, op)
                ends = portion[-1] is None
                pieces = [read(token) for token in portion if token is not None]
                return "".join(pieces) + (engine.finish(request.number) or "" if ends else "")

        def done(piece: Any, error: BaseException | None) -> None:
            request.is_reading = False
            if error is not None and request.failure is None:
                self._failed(request, via_failure(output, error))
            elif error is None and piece and not request.is_cancelled:
                request.listener.text(output.name, piece)
            if request.failure is None and not request.is_cancelled:
                self._read(request)
            self._was_read(request)

        self._pool.submit(request.times.timed(f"{engine.name}.{op}", work), done)
