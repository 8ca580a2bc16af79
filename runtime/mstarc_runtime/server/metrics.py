"""What is counted, in the names of Prometheus. One registry a server."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


class Metrics:
    """Counters, gauges and histograms of a server."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self.running = Gauge(
            "mstarc_requests_running", "Requests that hold a slot of the plan", registry=registry
        )
        self.waiting = Gauge(
            "mstarc_requests_waiting", "Requests that wait for a slot", registry=registry
        )
        self.requests = Counter(
            "mstarc_requests_total",
            "Requests that are over, by how they ended: finished, failed or cancelled",
            ("route", "outcome"),
            registry=registry,
        )
        self.refusals = Counter(
            "mstarc_refusals_total",
            "Requests that were not taken, by code",
            ("code",),
            registry=registry,
        )
        self.tokens = Counter(
            "mstarc_text_tokens_total", "Tokens that became text", ("route",), registry=registry
        )
        self.sound_s = Counter(
            "mstarc_audio_seconds_total", "Seconds of sound made", ("route",), registry=registry
        )
        self.first_output_s = Histogram(
            "mstarc_first_output_seconds",
            "Seconds from a request's coming to its first output",
            ("route",),
            buckets=_SECONDS,
            registry=registry,
        )
        self.request_s = Histogram(
            "mstarc_request_seconds",
            "Seconds from a request's coming to its end",
            ("route",),
            buckets=_SECONDS,
            registry=registry,
        )
        self.workers = Gauge(
            "mstarc_workers", "Workers by whether they answer", ("state",), registry=registry
        )
        self.pages = Gauge(
            "mstarc_kv_pages_used",
            "Pages of KV caches that requests hold",
            ("process", "node"),
            registry=registry,
        )
        self.steps = Gauge(
            "mstarc_steps",
            "Steps run since the start, by step and whether they were one graph",
            ("process", "step", "as"),
            registry=registry,
        )

        self.eager_fallbacks = Gauge(
            "mstarc_eager_fallbacks",
            "Steps run call by call since the start, by nodes, step of a walk and batch size",
            ("process", "node", "walk", "bs", "reason"),
            registry=registry,
        )

    def text(self) -> bytes:
        """All of them, in Prometheus' format."""
        return generate_latest(self.registry)
