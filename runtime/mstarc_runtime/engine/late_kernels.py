"""Kernels that are compiled while a rank serves: the request that came with their shape waits.

Triton compiles a kernel the first time that it is called with other constants, or finds it in its
cache, which takes less and is not counted. All that a start has run is compiled by then; prompts of
a new padded length may want more. What wants more again and again has a size among its constants
that differs from request to request, which no kernel here should have.
"""

from collections import Counter
from typing import Any


class LateKernels:
    """How often each kernel was compiled since `watch`, and how long it took in all."""

    def __init__(self) -> None:
        self.by_name: Counter[str] = Counter()
        self.spent_us = 0

    def watch(self) -> None:
        """Counts from now on, on a device that Triton compiles for."""
        import triton

        triton.knobs.compilation.listener = self.note

    def note(
        self, *, metadata: dict[str, Any], times: Any, cache_hit: bool, **_others: object
    ) -> None:
        """What Triton says of a kernel."""
        if not cache_hit:
            self.by_name[str(metadata["name"])] += 1
            self.spent_us += times.total

    def counts(self) -> dict[str, int]:
        return {
            "kernels_compiled": self.by_name.total(),
            "kernel_compile_milliseconds": round(self.spent_us / 1000),
        }


LATE_KERNELS = LateKernels()
"""Of this process: Triton tells one listener."""
