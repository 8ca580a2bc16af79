"""What is counted, in the names of Prometheus. One registry a server.

Requests are counted here as they end; what the ranks count is taken from what they have told last
(`worker_metrics`).
"""

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from mstarc_runtime.server.followed import Followed
from mstarc_runtime.server.tallies import Counts, Spreads
from mstarc_runtime.server.worker_metrics import WorkerMetrics

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
_FACTORS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 5.0, 10.0)


class Metrics:
    """Counters, gauges and histograms of a server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.workers = WorkerMetrics()
        self.registry.register(self.workers)
        self.running = self._gauge("requests_running", "Requests that hold a slot of the plan")
        self.waiting = self._gauge("requests_waiting", "Requests that wait for a slot")
        self.requests = self._counter(
            "requests",
            "Requests that are over, by how they ended: finished, failed or cancelled",
            "route",
            "outcome",
        )
        self.refusals = self._counter("refusals", "Requests that were not taken, by code", "code")
        self.failures = self._counter(
            "failures", "Requests that were taken and failed, by code", "code"
        )
        self.tokens = self._counter("text_tokens", "Tokens that became text", "route")
        self.sound_s = self._counter("audio_seconds", "Seconds of sound made", "route")
        self.underruns = self._counter(
            "audio_underruns",
            "Pieces of sound that came later than the sound before them lasts",
            "route",
            "output",
        )
        self.silent_s = self._counter(
            "audio_underrun_seconds", "Seconds for which listeners had no sound", "route", "output"
        )
        self.real_time_factor = self._histogram(
            "audio_real_time_factor",
            "Seconds from a request's start to its last sound, for each second of sound",
            _FACTORS,
            "route",
        )
        self.queue_s = self._histogram(
            "queue_seconds", "Seconds from a request's coming to its slot", _SECONDS, "route"
        )
        self.first_output_s = self._histogram(
            "first_output_seconds",
            "Seconds from a request's coming to its first output",
            _SECONDS,
            "route",
        )
        self.request_s = self._histogram(
            "request_seconds", "Seconds from a request's coming to its end", _SECONDS, "route"
        )

    def first(self, followed: Followed) -> None:
        """Notes when a request's first output came."""
        assert followed.first_output_s is not None
        self.first_output_s.labels(followed.route).observe(followed.first_output_s)

    def over(self, followed: Followed) -> None:
        """Counts a request that has ended."""
        route, live, outcome = followed.route, followed.live, followed.outcome
        self.requests.labels(route, outcome).inc()
        if live.tokens:
            self.tokens.labels(route).inc(live.tokens)
        if live.failure is not None:
            self.failures.labels(live.failure.code).inc()
        times = followed.times
        if times.admitted_ns:
            self.queue_s.labels(route).observe((times.admitted_ns - times.submitted_ns) / 1e9)
        for output, playback in live.playing.items():
            self.sound_s.labels(route).inc(playback.sound_s)
            self.underruns.labels(route, output).inc(playback.underruns)
            self.silent_s.labels(route, output).inc(playback.silent_s)
            if outcome == "finished" and playback.sound_s and times.admitted_ns:
                spent_s = playback.last_s - times.admitted_ns / 1e9
                self.real_time_factor.labels(route).observe(spent_s / playback.sound_s)
        if outcome == "finished":
            self.request_s.labels(route).observe(followed.seconds)

    def totals(self) -> dict[str, float]:
        """What has been counted so far, over all routes."""
        ended = {
            outcome: self.requests.total(outcome=outcome)
            for outcome in ("finished", "failed", "cancelled")
        }
        return {
            **ended,
            "refused": self.refusals.total(),
            "tokens": self.tokens.total(),
            "sound_s": self.sound_s.total(),
            "underruns": self.underruns.total(),
        }

    def text(self) -> bytes:
        """All of them, in Prometheus' format."""
        return generate_latest(self.registry)

    def _counter(self, name: str, what: str, *labels: str) -> Counts:
        counts = Counts(f"mstarc_{name}", what, labels)
        self.registry.register(counts)
        return counts

    def _gauge(self, name: str, what: str) -> Gauge:
        return Gauge(f"mstarc_{name}", what, registry=self.registry)

    def _histogram(self, name: str, what: str, bounds: tuple[float, ...], *labels: str) -> Spreads:
        spreads = Spreads(f"mstarc_{name}", what, labels, bounds)
        self.registry.register(spreads)
        return spreads
