"""One suite for all attention backends: what a call sees is what dense attention sees."""

import numpy as np
import pytest
import torch
from torch import Tensor

from mstarc_runtime.attention.mask import CAUSAL, FULL, PREFIX, Mask, frames
from mstarc_runtime.engine.context import StepContext
from mstarc_runtime.engine.packed_context import PackedContext
from tests.runtime.attention.attention_bench import (
    LAYERS,
    Bench,
    Setting,
    dense,
    flashinfer_settings,
)

GPU = pytest.mark.gpu
SETTINGS = [
    pytest.param(Setting(backend="row-by-row"), id="torch-row-by-row"),
    pytest.param(Setting(backend="batched"), id="torch-batched"),
    pytest.param(Setting(backend="batched", heads=4, kv_heads=4), id="torch-one-head-a-group"),
    pytest.param(Setting(backend="batched", device="cuda"), id="torch-cuda", marks=GPU),
    *flashinfer_settings((24, 8, 128), (9, 3, 64), (40, 8, 128)),
]


@pytest.fixture(params=SETTINGS)
def setting(request: pytest.FixtureRequest) -> Setting:
    made: Setting = request.param
    return made


def test_prefill_then_steps(setting: Setting) -> None:
    bench = Bench(setting)
    bench.packed([3, 0, 5], [7, 1, 20])
    batch = np.array([5, 3, 0])
    for _ in range(20):
        bench.step(batch)


def test_requests_come_and_go_between_steps(setting: Setting) -> None:
    bench = Bench(setting)
    bench.packed([0, 1], [5, 9])
    first, second, third = np.array([0, 1]), np.array([1, 0, 4]), np.array([4])
    for _ in range(3):
        bench.step(first)
    bench.packed([4], [13])
    for _ in range(6):
        bench.step(second)
    bench.release(1)
    bench.release(0)
    bench.packed([1], [3])
    for _ in range(3):
        bench.step(third)
    bench.step(np.array([1, 4]))
    bench.step(third, bucket=1)


def test_a_long_prompt_in_chunks(setting: Setting) -> None:
    bench = Bench(setting)
    for count in (10, 1, 17, 4):
        bench.packed([2, 4], [count, 3])


@pytest.mark.parametrize(
    "mask", [CAUSAL, FULL, PREFIX, frames(3), frames(1)], ids=lambda mask: f"{mask.kind}"
)
def test_masks(setting: Setting, mask: Mask) -> None:
    bench = Bench(setting)
    bench.packed([1, 2], [6, 3])
    bench.packed([1, 2], [9, 6], mask=mask, keep=mask.kind != "prefix")
    bench.packed([1], [3], mask=mask)
    bench.step(np.array([1, 2]))


def test_rows_that_are_not_kept_leave_no_trace(setting: Setting) -> None:
    bench = Bench(setting)
    bench.packed([1, 2], [6, 3])
    batch = np.array([2, 1])
    for _ in range(5):
        bench.packed([1], [9], mask=FULL, keep=False)
        bench.step(batch, keep=False)
    bench.step(batch)
    assert bench.cache.length(1, "main") == 7


def test_forks_go_their_own_ways(setting: Setting) -> None:
    bench = Bench(setting, contexts=("main", "other"))
    bench.packed([0, 3], [7, 9])
    bench.fork(0, "main", "other")
    bench.packed([0], [5], context="other")
    batch = np.array([0, 3])
    for _ in range(6):
        bench.step(batch)
        bench.step(np.array([0]), context="other")
    bench.fork(0, "other", "main")
    for _ in range(3):
        bench.step(batch)
        bench.step(np.array([0]), context="other")


@pytest.mark.parametrize("written", [7, 4], ids=["full", "partly"])
def test_cross_contexts(setting: Setting, written: int) -> None:
    bench = Bench(setting, cross={"sound": 7})
    for context in bench.cache.cross.values():
        context.keys.fill_(float("nan"))
        context.values.fill_(float("nan"))
    slots = [4, 1]
    call = PackedContext(
        cache=bench.cache,
        backend=bench.backend,
        samplers={},
        slots=np.array(slots),
        counts=np.array([2, 1]),
    )
    shape = (2, written, setting.kv_heads, setting.head_dim)
    kept = [(bench.random(*shape), bench.random(*shape)) for _ in range(LAYERS)]
    for layer, (k, v) in enumerate(kept):
        call.write_cross(layer, k, v, context="sound")
    with pytest.raises(AssertionError, match="written twice"):
        call.write_cross(0, *kept[0], context="sound")
    step = StepContext(cache=bench.cache, backend=bench.backend, samplers={}, bucket=8)
    step.prepare(np.array(slots))
    visible = torch.ones(1, written, dtype=torch.bool, device=bench.device)
    tolerance = setting.tolerance
    for context, owners in ((call, [0, 0, 1]), (step, [0, 1])):
        for layer, (k, v) in enumerate(kept):
            q, _, _ = bench.qkv(3 if context is call else 8)
            made = context.attend_cross(layer, q, context="sound").float()
            for row, owner in enumerate(owners):
                expected = dense(
                    q[row : row + 1].float(), k[owner].float(), v[owner].float(), visible
                )
                torch.testing.assert_close(
                    made[row : row + 1], expected, rtol=tolerance, atol=tolerance
                )
    bench.cache.release_slot(4)
    again = PackedContext(
        cache=bench.cache,
        backend=bench.backend,
        samplers={},
        slots=np.array([4]),
        counts=np.array([1]),
    )
    again.write_cross(0, kept[0][0][:1], kept[0][1][:1], context="sound")


def test_row_by_row_bits_depend_on_nobody_else() -> None:
    setting = Setting(backend="row-by-row")
    alone, beside = Bench(setting), Bench(setting)
    k, v = alone.random(30, 2, 16), alone.random(30, 2, 16)
    for bench, slot in ((alone, 2), (beside, 5)):
        call = PackedContext(
            cache=bench.cache,
            backend=bench.backend,
            samplers={},
            slots=np.array([slot]),
            counts=np.array([9]),
        )
        call.attend(0, torch.zeros(9, 6, 16), k[:9], v[:9])
    beside.packed([0, 1], [4, 17])
    first = StepContext(cache=alone.cache, backend=alone.backend, samplers={}, bucket=8)
    second = StepContext(cache=beside.cache, backend=beside.backend, samplers={}, bucket=8)
    batches = np.array([2]), np.array([0, 5, 1])
    for index in range(9, 30):
        first.prepare(batches[0])
        second.prepare(batches[1])
        q = alone.random(6, 16)

        def padded(row: Tensor, place: int) -> Tensor:
            made = torch.full((8, *row.shape), float("nan"))
            made[place] = row
            return made

        made = first.attend(0, padded(q, 0), padded(k[index], 0), padded(v[index], 0))
        other = second.attend(0, padded(q, 1), padded(k[index], 1), padded(v[index], 1))
        assert torch.equal(made[0], other[1])


@pytest.mark.gpu
@pytest.mark.parametrize("backend", ["batched", "flashinfer"])
def test_a_captured_step_replays_for_other_requests(backend: str) -> None:
    setting = Setting(
        backend=backend, device="cuda", dtype=torch.bfloat16, heads=24, kv_heads=8, head_dim=128
    )
    bench = Bench(setting, max_rows=256)
    eager = Bench(setting, max_rows=256)
    bucket = 4
    step = StepContext(cache=bench.cache, backend=bench.backend, samplers={}, bucket=bucket)
    plain = StepContext(cache=eager.cache, backend=eager.backend, samplers={}, bucket=bucket)
    q, k, v = (part.clone() for part in bench.qkv(bucket))
    warm = np.array([0])
    step.prepare(warm)
    plain.prepare(warm)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step.attend(0, q, k, v)
    torch.cuda.current_stream().wait_stream(stream)
    plain.attend(0, q, k, v)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step.attend(0, q, k, v)
    for slots in (np.array([0]), np.array([3, 1]), np.array([1, 0, 3, 2])):
        for _ in range(40):
            for tensor in (q, k, v):
                tensor.copy_(bench.random(*tensor.shape))
            step.prepare(slots)
            graph.replay()
            plain.prepare(slots)
            expected = plain.attend(0, q, k, v)
            assert torch.equal(out[: slots.size], expected[: slots.size])
