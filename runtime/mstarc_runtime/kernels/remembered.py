"""What a time becomes, remembered on the device: f32[B] times → rows bf16[B, N].

Policies ask for the same few times in every request, and what a time becomes costs as many bytes as
all else of a pass. So each product keeps its rows by time: a block takes some columns, looks where
its part of a time's row would be, and computes it only where another time's is. Whether it was
remembered changes no bit. A block has marks of its own, so that nothing is waited for. It takes
so many columns that there are few blocks where all is remembered, and computes some at once. A
product starts while the one before it ends (see `dependent`).
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from mstarc_runtime.kernels.dependent import allow_next, wait_for_previous

_SLOTS = 128
# No time has these bits.
_NOBODY = 0x7FFFFFFF


@triton.jit
def _remembered(
    times, x, waves, weight, bias, marks, kept, out, batch, N,
    K: tl.constexpr, ROWS: tl.constexpr, GROUPS: tl.constexpr, COLUMNS: tl.constexpr,
    SLOTS: tl.constexpr, WAVES: tl.constexpr, SILU: tl.constexpr, CHAINED: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0)
    column = tl.arange(0, COLUMNS)
    own = block * ROWS * GROUPS + tl.arange(0, ROWS * GROUPS)
    allow_next(CHAINED)
    wait_for_previous(CHAINED)
    for row in range(batch):
        time = tl.load(times + row)
        bits = time.to(tl.int32, bitcast=True)
        # The golden ratio's digits spread neighbours.
        slot = (bits.to(tl.uint32) * 2654435769 >> 16) % SLOTS
        mark = tl.load(marks + block * SLOTS + slot)
        to = kept + slot.to(tl.int64) * N
        if mark != bits:
            for group in range(GROUPS):
                unit = (block * GROUPS + group) * ROWS + tl.arange(0, ROWS)
                inside = unit < N
                at = weight + tl.where(inside, unit, 0).to(tl.int64)[:, None] * K + column[None, :]
                sums = tl.zeros((ROWS,), dtype=tl.float32)
                for first in range(0, K, COLUMNS):
                    w = tl.load(at + first).to(tl.float32)
                    if WAVES:
                        HALF: tl.constexpr = K // 2
                        wave = (first + column) % HALF
                        angle = time.to(tl.float64) * tl.load(waves + wave)
                        value = tl.where(first + column < HALF, tl.sin(angle), tl.cos(angle))
                        value = value.to(tl.float32).to(kept.dtype.element_ty).to(tl.float32)
                    else:
                        value = tl.load(x + row * K + first + column).to(tl.float32)
                    sums += tl.sum(w * value[None, :], axis=1)
                sums += tl.load(bias + unit, mask=inside, other=0.0).to(tl.float32)
                made = sums.to(kept.dtype.element_ty)
                if SILU:
                    wide = made.to(tl.float32)
                    made = (wide / (1.0 + tl.exp(-wide))).to(kept.dtype.element_ty)
                tl.store(to + unit, made, mask=inside)
            tl.store(marks + block * SLOTS + slot, bits)
            tl.debug_barrier()
        tl.store(out + row * N + own, tl.load(to + own, mask=own < N), mask=own < N)


class RememberedProduct:
    """One matrix [N, K] and its bias [N], with rows of times that it has seen.

    Without `x` a row is the sines and cosines of a time, K / 2 each, `turns` f64[K / 2] radians a
    unit of time.
    """

    def __init__(
        self, weight: Tensor, bias: Tensor, *, silu: bool = False, turns: Tensor | None = None
    ) -> None:
        self._weight, self._bias, self._silu, self._turns = weight, bias, silu, turns
        self._chained = weight.is_cuda
        count = len(weight)
        # A product that reads much is cut into blocks enough, a small one into many.
        self._rows, self._groups = (16, 16) if count > 1 << 14 else (8, 1)
        blocks = triton.cdiv(count, self._rows * self._groups)
        device = weight.device
        self._marks = torch.full((blocks, _SLOTS), _NOBODY, dtype=torch.int32, device=device)
        self._kept = torch.empty(_SLOTS, count, dtype=weight.dtype, device=device)

    def __call__(self, times: Tensor, x: Tensor | None = None) -> Tensor:
        """[B, N] of `times` f32[B] and what they have become so far, [B, K]."""
        count, inner = self._weight.shape
        assert times.dtype == torch.float32 and (x is None) == (self._turns is not None)
        out = torch.empty(len(times), count, dtype=self._weight.dtype, device=times.device)
        _remembered[(len(self._marks),)](
            times,
            times if x is None else x,
            times if self._turns is None else self._turns,
            self._weight,
            self._bias,
            self._marks,
            self._kept,
            out,
            len(times),
            count,
            K=inner,
            ROWS=self._rows,
            GROUPS=self._groups,
            COLUMNS=min(512, inner),
            SLOTS=_SLOTS,
            WAVES=x is None,
            SILU=self._silu,
            CHAINED=self._chained,
            num_warps=4,
            launch_pdl=self._chained,
        )
        return out
