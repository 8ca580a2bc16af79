"""What every kernel of a decoding step does about the one before it.

A step is a chain of short kernels. Each lets its successor start at once (`allow_next`), so the
successor's blocks sit on the multiprocessors already and fetch weights, which no kernel writes;
then it waits until its predecessor's writes are seen (`wait_for_previous`). So the memory bus does
not fall silent between two kernels. Launch with `launch_pdl=True`.

Source: CUDA programming guide, "Programmatic Dependent Launch".
"""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

CHUNK = 256
"""bf16 numbers that one prefetch brings: 512 bytes."""


@triton.jit
def allow_next(CHAINED: tl.constexpr):
    if CHAINED:
        gdc_launch_dependents()


@triton.jit
def wait_for_previous(CHAINED: tl.constexpr):
    if CHAINED:
        gdc_wait()


@triton.jit
def prefetch_rows(
    weight, rows, first, K: tl.constexpr, COLUMNS: tl.constexpr, CHUNKS: tl.constexpr
):
    """Asks for columns `first`.. of `rows` i32[R] of a bf16 matrix with K columns: COLUMNS of them,
    in CHUNKS of 256, a power of two not below what is needed."""
    chunk = tl.arange(0, CHUNKS) * 256
    pointers = weight + rows[:, None].to(tl.int64) * K + first + chunk[None, :]
    pointers = tl.where((chunk < COLUMNS)[None, :], pointers, weight + first)
    sizes = tl.where((chunk < COLUMNS)[None, :], tl.minimum(COLUMNS - chunk, 256)[None, :] * 2, 16)
    tl.inline_asm_elementwise(
        "cp.async.bulk.prefetch.L2.global [$1], $2; mov.u32 $0, 0;",
        "=r,l,r",
        [pointers, sizes],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )
