"""What runs steps and attention on a device, where nobody has said otherwise.

On a CPU: call by call, plain torch. On a GPU: regions as CUDA graphs; steps of one row by our own
kernel, all other rows by FlashInfer. Without FlashInfer plain torch does its part, and `said` says
so: it is slower, and nothing else changes.
"""

from dataclasses import dataclass
from functools import partial

import torch

from mstarc_runtime.attention.makers import BackendMaker, reference_attention
from mstarc_runtime.engine.cuda_graph import CudaGraphExecutor
from mstarc_runtime.engine.eager import EagerExecutor, Executor


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceChoices:
    """`said` is a line for people."""

    executor: Executor
    attention: BackendMaker
    said: str


def choices_on(device: torch.device, *, levels: bool = True) -> DeviceChoices:
    """The usual for a device. `levels`: whether prompts' shared pages are read once by a call."""
    if device.type != "cuda":
        return DeviceChoices(
            executor=EagerExecutor(), attention=reference_attention, said="attention: plain torch"
        )
    # Here, because their compilers come with torch for GPUs only.
    from mstarc_runtime.attention.paged_decode import PagedDecodeAttention

    try:
        import flashinfer  # noqa: F401 - is it there?
    except ImportError:
        others: BackendMaker = reference_attention
        said = (
            "attention: own kernel for steps, plain torch for prompts (FlashInfer is not installed)"
        )
    else:
        from mstarc_runtime.attention.flashinfer import FlashInferAttention

        others = partial(FlashInferAttention, levels=levels)
        said = "attention: own kernel for steps, FlashInfer for prompts"
    return DeviceChoices(
        executor=CudaGraphExecutor(),
        attention=lambda cache: PagedDecodeAttention(cache, others(cache)),
        said=said,
    )
