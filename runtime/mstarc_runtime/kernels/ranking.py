"""Leaves the first `top_k` logits of each row and sets all others to -inf, without sorting them.

A block a row looks for the key of the last one by halving, as `layers.sampler` counts: ids of equal
keys by their order. A row whose request has no `top_k` costs a launch and nothing else.
"""

import triton
import triton.language as tl
from torch import Tensor

from mstarc_runtime.kernels.dependent import allow_next, wait_for_previous
from mstarc_runtime.kernels.sampling import KEYS, MOST
from mstarc_runtime.layers.sampler import LAST_KEY

LAST = tl.constexpr(LAST_KEY)


@triton.jit
def _scaled(
    logits, seen, first, penalty, divisor, V, PART: tl.constexpr, PENALISED: tl.constexpr
):  # fmt: skip
    ids = first + tl.arange(0, PART)
    values = tl.load(logits + ids, mask=ids < V, other=float("-inf"))
    if PENALISED:
        known = tl.load(seen + ids, mask=ids < V, other=0)
        changed = tl.where(values > 0, tl.math.div_rn(values, penalty), values * penalty)
        values = tl.where(known != 0, changed, values)
    return tl.math.div_rn(values, divisor), ids


@triton.jit
def rank_row(
    logits, seen, settings, ranks, slots, V,
    PART: tl.constexpr, COUNT: tl.constexpr, PENALISED: tl.constexpr, CHAINED: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    allow_next(CHAINED)
    wait_for_previous(CHAINED)
    slot = tl.load(slots + row)
    wanted = tl.load(ranks + slot).to(tl.int32)
    temperature = tl.load(settings + slot)
    if (wanted > 0) & (wanted < V) & (temperature > 0):
        own = logits + row * V
        known = seen + slot * V
        penalty = tl.load(settings + 2 * COUNT + slot)
        most = tl.full((), float("-inf"), tl.float32)
        for first in range(0, V, PART):
            scaled, ids = _scaled(own, known, first, penalty, temperature, V, PART, PENALISED)
            most = tl.maximum(most, tl.max(scaled, axis=0))
        low = wanted * 0 - 1
        high = wanted * 0 + LAST
        while high - low > 1:
            middle = (low + high) // 2
            reached = wanted * 0
            for first in range(0, V, PART):
                scaled, ids = _scaled(own, known, first, penalty, temperature, V, PART, PENALISED)
                key = tl.minimum((most - scaled) * KEYS, MOST).to(tl.int32)
                reached += tl.sum(((key <= middle) & (ids < V)).to(tl.int32), axis=0)
            is_enough = reached >= wanted
            high = tl.where(is_enough, middle, high)
            low = tl.where(is_enough, low, middle)
        before = wanted * 0
        for first in range(0, V, PART):
            scaled, ids = _scaled(own, known, first, penalty, temperature, V, PART, PENALISED)
            key = tl.minimum((most - scaled) * KEYS, MOST).to(tl.int32)
            before += tl.sum(((key < high) & (ids < V)).to(tl.int32), axis=0)
        left = wanted - before
        for first in range(0, V, PART):
            scaled, ids = _scaled(own, known, first, penalty, temperature, V, PART, PENALISED)
            key = tl.minimum((most - scaled) * KEYS, MOST).to(tl.int32)
            equal = ((key == high) & (ids < V)).to(tl.int32)
            order = tl.cumsum(equal, axis=0)
            is_out = (key > high) | ((equal == 1) & (order > left))
            tl.store(own + ids, float("-inf"), mask=is_out & (ids < V))
            left -= tl.sum(equal, axis=0)


def keep_first(
    logits: Tensor,
    *,
    settings: Tensor,
    ranks: Tensor,
    slots: Tensor,
    seen: Tensor | None,
    chained: bool,
) -> None:
    """Changes `logits` f32[B, V]. `settings` f32[3, slots] and `seen` as `sampling.Draw` takes
    them; `ranks` i64[slots] are the `top_k`, 0 for none; `slots` i64[B]."""
    batch, vocab = logits.shape
    assert settings.is_contiguous()
    rank_row[(batch,)](
        logits,
        logits if seen is None else seen,
        settings,
        ranks,
        slots,
        vocab,
        PART=min(16384, triton.next_power_of_2(vocab)),
        COUNT=settings.shape[1],
        PENALISED=seen is not None,
        CHAINED=chained,
        num_warps=32,
        launch_pdl=chained,
    )
