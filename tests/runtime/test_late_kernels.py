"""Kernels that were compiled while requests waited are counted, and named when a run is over."""

import json
from types import SimpleNamespace
from typing import Any

from mstarc_runtime.engine.late_kernels import LateKernels
from mstarc_runtime.how_it_ran import kernel_lines


def told_of(late: LateKernels) -> Any:
    return SimpleNamespace(now=json.dumps({"counts": late.counts(), "kernels": late.by_name}))


def test_what_was_compiled_is_named_with_how_often_and_how_long() -> None:
    late = LateKernels()
    for name, total_us in (("append", 200_000), ("attend", 900_000), ("append", 250_000)):
        times = SimpleNamespace(total=total_us)
        late.note(metadata={"name": name}, times=times, cache_hit=False, src=None)
    assert late.counts() == {"kernels_compiled": 3, "kernel_compile_milliseconds": 1350}
    assert list(kernel_lines([told_of(late), told_of(LateKernels())])) == [
        "kernels: 3 were compiled while requests waited, 1.4 s in all: `append` 2, `attend` 1"
    ]


def test_a_kernel_from_the_cache_is_none() -> None:
    late = LateKernels()
    late.note(metadata={"name": "append"}, times=SimpleNamespace(total=9), cache_hit=True)
    assert not late.counts()["kernels_compiled"]
    assert not list(kernel_lines([told_of(late)]))
