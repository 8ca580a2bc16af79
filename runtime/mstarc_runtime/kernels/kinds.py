"""What a product of a decoding step is for: see `skinny`."""

import triton.language as tl

PROJECT = tl.constexpr(0)
GATE = tl.constexpr(1)
RESIDUAL = tl.constexpr(2)
LOGITS = tl.constexpr(3)
