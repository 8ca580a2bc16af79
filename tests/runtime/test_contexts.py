"""What a step does to contexts before it is launched, and what its calls then see."""

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from mstarc_runtime.attention.makers import reference_attention
from mstarc_runtime.engine.arrays import ContextArrays
from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.kv_cache import KVEngine
from mstarc_runtime.engine.op_plans import GREEDY, op_plans, sampler_states
from mstarc_runtime.engine.options import OptionTable
from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.layout import CacheLayout
from mstarc_runtime.plan_api import DeviceStep, Sampler

CPU = torch.device("cpu")


class Attending(nn.Module):
    """Every row has a key of zeros: attention is the mean of the values that it sees."""

    def step(self, ctx: Any, value: Tensor) -> tuple[Tensor, Tensor]:
        return self._attend(ctx, value)

    read = look = step

    def _attend(self, ctx: Any, value: Tensor) -> tuple[Tensor, Tensor]:
        rows = value.to(torch.float32).view(-1, 1, 1).expand(-1, 1, 4).contiguous()
        seen = ctx.attend(0, torch.zeros_like(rows), torch.zeros_like(rows), rows)
        return seen[:, 0, 0], ctx.positions


def engine() -> KVEngine:
    layout = CacheLayout(
        layers=1,
        kv_heads=1,
        head_dim=4,
        pages=32,
        page_size=4,
        slots=2,
        max_rows=32,
        contexts=("main", "side"),
        cross={},
    )
    cache = KVCache(layout, dtype=torch.float32, device=CPU)
    states = sampler_states("lm", (GREEDY,), slots=2, vocab=4, device=CPU, captured=False)
    return KVEngine(
        name="lm",
        module=Attending(),
        cache=cache,
        backend=reference_attention(cache),
        samplers=states,
        settings=(GREEDY,),
        arrays=ContextArrays({}, cache),
        ops=op_plans(
            {"step": "causal", "read": "full", "look": "full"},
            {"step": "main", "read": "main"},
            {"look": "main"},
            (GREEDY,),
            {},
        ),
    )


def batch_of(rows: Literal["one", "packed"]) -> StepBatch:
    step = DeviceStep(
        id=0,
        name="s",
        run=lambda: None,
        nodes=("lm",),
        rows=rows,
        then=0,
        line=1,
    )
    batch = StepBatch(step, 2, padding_slot=2, device=CPU, options=OptionTable(slots=2, device=CPU))
    batch.bind(np.arange(2, dtype=np.int64))
    return batch


def packed(lm: KVEngine, op: str, rows: list[float], **how: Any) -> tuple[list[float], list[int]]:
    """One packed call of equally many rows of both requests."""
    batch = batch_of("packed")
    make = lm.peek if op == "look" else lm.grow
    make(batch, len(rows), **how)
    context = how.get("context")
    seen, positions = getattr(lm, op)(batch, torch.tensor(rows * 2), context=context)
    return seen.tolist(), positions.tolist()


def test_calls_that_follow_one_another_in_a_step_have_a_row_each() -> None:
    lm, batch = engine(), batch_of("one")
    lm.grow(batch, 3)
    for expected in (1.0, 1.5, 2.0):
        value = torch.full((2,), expected * 2 - 1)
        seen, _ = lm.step(batch, value)
        assert seen.tolist() == [expected, expected]
    assert lm.cache.length(0, "main") == 3
    lm.shrink(batch)
    assert lm.cache.length(0, "main") == 0


def test_what_is_only_read_does_not_stay() -> None:
    lm = engine()
    packed(lm, "read", [1.0, 3.0])
    seen, positions = packed(lm, "look", [8.0])
    assert seen == [4.0, 4.0]
    assert positions == [2, 2]
    assert lm.cache.length(0, "main") == 2
    assert packed(lm, "look", [2.0])[0] == [2.0, 2.0]


def test_a_fork_holds_what_its_source_held_and_goes_its_own_way() -> None:
    lm = engine()
    packed(lm, "read", [1.0, 3.0])
    lm.fork(batch_of("packed"), "main", "side")
    assert packed(lm, "read", [5.0], context="side")[0] == [3.0, 3.0]
    assert packed(lm, "look", [2.0])[0] == [2.0, 2.0]
    lm.clear(batch_of("packed"), "side")
    assert lm.cache.length(1, "side") == 0
    assert lm.cache.length(1, "main") == 2


def test_positions_move_by_what_a_call_says() -> None:
    lm = engine()
    assert packed(lm, "read", [1.0, 1.0, 1.0], advance=1)[1] == [0, 0, 0] * 2
    assert packed(lm, "read", [1.0], advance=[5, 7])[1] == [1, 1]
    assert packed(lm, "read", [1.0])[1] == [6, 8]


def test_nodes_with_one_seed_draw_apart() -> None:
    samplers = (Sampler(temperature=1.0), Sampler(name="words", temperature=1.0))
    streams = {
        state.stream
        for node in ("thinker", "talker", "predictor")
        for state in sampler_states(
            node, samplers, slots=1, vocab=4, device=CPU, captured=False
        ).values()
    }
    assert len(streams) == 6
