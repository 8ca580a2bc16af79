"""Names of element types in plans, and what they are here.

`bf16` is what nodes compute in. A rank that computes in another type (float32 on a CPU) keeps such
values in that type, and nothing of them is lost on the way from node to node.
"""

import torch

_DTYPES = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f64": torch.float64,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "bool": torch.bool,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


def torch_dtype(name: str, computed: torch.dtype = torch.bfloat16) -> torch.dtype:
    """The type that values of `name` have on a rank whose nodes compute in `computed`."""
    return computed if name == "bf16" else _DTYPES[name]


def dtype_name(dtype: torch.dtype) -> str:
    return _NAMES[dtype]
