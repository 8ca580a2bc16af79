"""Attention over cross contexts, the same for all backends: their rows are dense."""

import torch
from torch import Tensor

from mstarc_runtime.attention.dense import attend_dense, attend_row
from mstarc_runtime.kvcache.cross import CrossContext


def attend_cross(
    context: CrossContext,
    layer: int,
    q: Tensor,
    *,
    slots: Tensor,
    host_slots: list[int] | None,
    scale: float,
) -> Tensor:
    """`q` [R, Hq, D] of `slots` i64[R] over all that each slot has written: [R, Hq, D].

    With `host_slots` each row is computed alone, so that its bits depend on nobody else; without
    them all rows at once, which can be captured.
    """
    keys, values = context.keys[layer], context.values[layer]
    if host_slots is not None:
        out = torch.zeros_like(q)
        padding = keys.shape[0] - 1
        for row, slot in enumerate(host_slots):
            if slot != padding:
                count = context.host_lengths[slot]
                out[row] = attend_row(q[row], keys[slot, :count], values[slot, :count], scale)
        return out
    numbers = torch.arange(context.rows, device=q.device)
    visible = numbers < context.lengths.index_select(0, slots)[:, None]
    # What was never written may hold anything, and 0 * NaN is NaN.
    unseen = ~visible[:, :, None, None]
    seen_keys = keys.index_select(0, slots).masked_fill(unseen, 0)
    seen_values = values.index_select(0, slots).masked_fill(unseen, 0)
    return attend_dense(q[:, None], seen_keys, seen_values, visible[:, None, None], scale)[:, 0]
