"""A request's path as spans of OpenTelemetry: queue, machine states, steps, host ops.

Each HTTP call is a span, a child of the client's where it sends a `traceparent`; each request that
it submits is one below it, with its wait, the states of its machines, and in them its steps: when
the first row came there, when the last one left, how often, and for how long. The library is an
extra; it is loaded when traces are asked for.
"""

import time
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from mstarc_runtime.errors import RuntimeFailure, not_written
from mstarc_runtime.server.calls import Call
from mstarc_runtime.server.followed import Followed
from mstarc_runtime.server.log import PARTS, QUIET
from mstarc_runtime.visits import Visit

INSTALL = 'pip install "mstarc[run,serve,telemetry]"'
_PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


class Tracing(Protocol):
    """Who is told of calls and requests."""

    def begun(self, call: Call) -> None: ...

    def wants(self, call: Call | None) -> bool:
        """Whether a call's requests are to note where they are."""
        ...

    def request_over(self, followed: Followed) -> None: ...

    def over(self, call: Call) -> None: ...

    def close(self) -> None: ...


class NoTracing:
    """Where nobody asked for traces."""

    def begun(self, call: Call) -> None: ...

    def wants(self, call: Call | None) -> bool:
        return False

    def request_over(self, followed: Followed) -> None: ...

    def over(self, call: Call) -> None: ...

    def close(self) -> None: ...


def tracing_to(target: str | None, model: str) -> Tracing:
    """Where `--traces` says: nowhere, an OTLP collector's address, or a file of JSON lines.

    Fails with MS9003 or MS9018.
    """
    if target is None:
        return NoTracing()
    missing = [name for name in _PACKAGES if not _is_there(name)]
    if missing:
        raise RuntimeFailure(
            "MS9018",
            "`--traces` needs packages that are not installed",
            notes=[f"not found: {', '.join(missing)}"],
            helps=[f"install them with `{INSTALL}`"],
        )
    return _OpenTelemetry(_exporter(target), model)


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _exporter(target: str) -> Any:
    if target.startswith(("http://", "https://")):
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter(endpoint=target)
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter

    path = Path(target)
    try:
        file = path.open("a", encoding="utf-8")
    except OSError as error:
        raise not_written(path, error) from error
    return ConsoleSpanExporter(out=file, formatter=lambda span: f"{span.to_json(indent=None)}\n")


class _OpenTelemetry:
    """Spans, given to an exporter in a thread of its own."""

    def __init__(self, exporter: Any, model: str) -> None:
        from opentelemetry.propagate import extract
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

        self._extract, self._kinds, self._in_context = extract, SpanKind, set_span_in_context
        self._failed: Any = lambda text: Status(StatusCode.ERROR, text)
        resource = Resource.create({"service.name": "mstarc", "mstarc.model": model})
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("mstarc")

    def begun(self, call: Call) -> None:
        if call.path in QUIET or call.path.startswith(PARTS):
            return
        call.span = self._tracer.start_span(
            f"{call.method} {call.path}",
            context=self._extract(call.headers),
            kind=self._kinds.SERVER,
            start_time=_wall(call.began_ns),
            attributes={
                "http.request.method": call.method,
                "url.path": call.path,
                "mstarc.request_id": call.id,
            },
        )

    def wants(self, call: Call | None) -> bool:
        return call is not None and call.span is not None and call.span.is_recording()

    def over(self, call: Call) -> None:
        if call.span is None:
            return
        call.span.set_attribute("http.response.status_code", call.status)
        if call.status >= 500:
            call.span.set_status(self._failed(f"status {call.status}"))
        call.span.end()

    def request_over(self, followed: Followed) -> None:
        if not self.wants_of(followed):
            return
        assert followed.call is not None
        times = followed.times
        ended = times.ended_ns or time.monotonic_ns()
        context = self._in_context(followed.call.span)
        facts: dict[str, Any] = {
            "mstarc.request": followed.live.number or 0,
            "mstarc.outcome": followed.outcome,
            "mstarc.tokens": followed.live.tokens,
            "mstarc.sound_s": followed.sound_s,
        }
        root = self._tracer.start_span(
            "request", context=context, start_time=_wall(times.submitted_ns), attributes=facts
        )
        if times.made_ns:
            root.add_event("first output", timestamp=_wall(times.made_ns))
        failure = followed.live.failure
        if failure is not None:
            root.set_attribute("mstarc.code", failure.code)
            root.set_status(self._failed(failure.message))
        inside = self._in_context(root)
        self._span("queue", times.submitted_ns, times.admitted_ns or ended, inside, {})
        for state, visits in _by_state(times.visits).items():
            begun = min(first for _, (_, _, first, _, _) in visits)
            left = max(last for _, (_, _, _, last, _) in visits)
            span = self._span(state, begun, left, inside, {}, ends=False)
            around = self._in_context(span)
            for process, visit in visits:
                self._visit(visit, around, {"mstarc.process": process})
            span.end(end_time=_wall(left))
        for visit in times.via.all():
            self._visit(visit, inside, {"mstarc.process": "conductor"})
        root.end(end_time=_wall(ended))

    def wants_of(self, followed: Followed) -> bool:
        """Whether its call has a span."""
        return followed.times.is_traced and followed.times.submitted_ns > 0

    def close(self) -> None:
        self._provider.shutdown()

    def _visit(self, visit: Visit, context: Any, facts: Mapping[str, Any]) -> None:
        step, count, first, last, total = visit
        there = {"mstarc.visits": count, "mstarc.seconds": total / 1e9}
        self._span(step, first, last, context, {**facts, **there})

    def _span(
        self,
        name: str,
        begun: int,
        ended: int,
        context: Any,
        facts: Mapping[str, Any],
        *,
        ends: bool = True,
    ) -> Any:
        span = self._tracer.start_span(
            name, context=context, start_time=_wall(begun), attributes=facts
        )
        if ends:
            span.end(end_time=_wall(ended))
        return span


def _by_state(visits: Iterable[tuple[int, Visit]]) -> dict[str, list[tuple[int, Visit]]]:
    """Visits by the machine's state that they are in, in the order of their beginning."""
    found: dict[str, list[tuple[int, Visit]]] = {}
    for process, visit in sorted(visits, key=lambda entry: entry[1][2]):
        state = ".".join(visit[0].split(".")[:2])
        found.setdefault(state, []).append((process, visit))
    return found


def _wall(monotonic_ns: int) -> int:
    """A time of the monotonic clock as ns since 1970."""
    return time.time_ns() - time.monotonic_ns() + monotonic_ns
