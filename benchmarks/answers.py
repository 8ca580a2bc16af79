"""When the parts of an answer came, and how much: what benchmarks of whole requests keep."""

import time
from dataclasses import dataclass, field
from typing import Any

from mstarc_runtime.errors import RuntimeFailure


@dataclass(eq=False)
class Timed:
    """One request's answer; parts are counted and not kept, so that their memory serves others."""

    began_s: float = field(default_factory=time.perf_counter)
    first_s: float | None = None
    ended_s: float = 0.0
    audio_s: float = 0.0
    tokens: int = 0
    failure: RuntimeFailure | None = None

    def _came(self) -> None:
        if self.first_s is None:
            self.first_s = time.perf_counter()

    def count(self, output: str, tokens: int) -> None:
        self._came()
        self.tokens += tokens

    def text(self, output: str, piece: str) -> None:
        self._came()

    def sound(self, output: str, samples: Any, rate: int) -> None:
        self._came()
        self.audio_s += len(samples) / rate

    def value(self, output: str, value: Any) -> None:
        self._came()

    def finished(self) -> None:
        self.ended_s = time.perf_counter()

    def failed(self, failure: RuntimeFailure) -> None:
        self.failure = failure

    def cancelled(self) -> None:
        raise AssertionError("nobody cancels")

    def check(self) -> None:
        """Raises what the request has failed with."""
        if self.failure is not None:
            raise self.failure
