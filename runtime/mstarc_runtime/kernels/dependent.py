"""What every kernel of a decoding step does about the one before it.

A step is a chain of short kernels. Each lets its successor start at once (`allow_next`), so the
successor's blocks sit on the multiprocessors already and load weights, which no kernel writes;
then it waits until its predecessor's writes are seen (`wait_for_previous`). So the memory bus does
not fall silent between two kernels. Launch with `launch_pdl=True`.

Where weights can't be held in registers meanwhile, they are asked for (`ask_for`): then they come
from the cache that all multiprocessors share.

Source: CUDA programming guide, "Programmatic Dependent Launch".
"""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def allow_next(CHAINED: tl.constexpr):
    if CHAINED:
        gdc_launch_dependents()


@triton.jit
def show_all(CHAINED: tl.constexpr):
    """Lets every multiprocessor see what this block has written, before it allows the next kernel:
    that one may read it, past its own cache, without waiting."""
    if CHAINED:
        tl.inline_asm_elementwise(
            "fence.acq_rel.gpu; mov.u32 $0, $1;",
            "=r,r",
            [tl.program_id(0)],
            dtype=tl.int32,
            is_pure=False,
            pack=1,
        )
        tl.debug_barrier()


@triton.jit
def wait_for_previous(CHAINED: tl.constexpr):
    if CHAINED:
        gdc_wait()


@triton.jit
def ask_for(lines, CHAINED: tl.constexpr):
    """Asks for the 128 bytes that each of `lines` points into, and waits for none."""
    if CHAINED:
        tl.inline_asm_elementwise(
            "prefetch.global.L2 [$1]; mov.u32 $0, 0;",
            "=r,l",
            [lines],
            dtype=tl.int32,
            is_pure=False,
            pack=1,
        )
