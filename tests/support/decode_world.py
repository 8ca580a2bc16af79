"""A decoder with random weights on a GPU, a cache that holds requests, and their next steps."""

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from mstarc_runtime.attention.backend import AttentionBackend
from mstarc_runtime.attention.torch_reference import TorchAttention
from mstarc_runtime.engine.context import StepContext
from mstarc_runtime.engine.packed_context import PackedContext
from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.layout import CacheLayout
from mstarc_runtime.layers.sampler import SamplerState, SamplingSettings
from mstarc_runtime.models.llama import Block, Decoder

Kind = TypeVar("Kind", bound=Decoder)


def random_decoder(kind: type[Kind], config: Mapping[str, Any]) -> Kind:
    """bf16 on the GPU; matrices of small random numbers, norms of ones."""
    device = torch.device("cuda")
    model = kind.build(config, dtype=torch.bfloat16, device=device)
    generator = torch.Generator(device).manual_seed(1)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.normal_(0.0, 0.04, generator=generator)
        else:
            parameter.fill_(1.0)
    return model


class DecodeWorld:
    """Slots 0.. hold `lengths[slot]` rows; every step puts token `7 * slot + 1` behind them."""

    def __init__(
        self, model: Decoder, *, bucket: int, lengths: Mapping[int, int], by_kernels: bool
    ) -> None:
        self.model = model
        device = torch.device("cuda")
        block = model.layers[0]
        assert isinstance(block, Block)
        attention = block.attention
        layout = CacheLayout(
            layers=len(model.layers),
            kv_heads=attention.kv_heads,
            head_dim=attention.head_dim,
            pages=256,
            page_size=16,
            slots=len(lengths),
            max_rows=512,
        )
        self.cache = KVCache(layout, dtype=torch.bfloat16, device=device)
        plain: AttentionBackend = TorchAttention(self.cache, row_by_row=False)
        backend = plain
        if by_kernels:
            # Here, because kernels are compiled on a machine with a GPU only.
            from mstarc_runtime.attention.paged_decode import PagedDecodeAttention

            backend = PagedDecodeAttention(self.cache, plain)
        sampler = SamplerState(slots=len(lengths), vocab=model.vocab_size, device=device)
        samplers = {"default": sampler}
        for slot, length in lengths.items():
            sampler.admit(slot, SamplingSettings())
            rows = PackedContext(
                cache=self.cache,
                backend=backend,
                samplers=samplers,
                slots=np.array([slot]),
                counts=np.array([length]),
            )
            model.prefill(rows, torch.arange(length, device=device) % model.vocab_size)
        self.step = StepContext(cache=self.cache, backend=backend, samplers=samplers, bucket=bucket)
        self.token = torch.zeros(bucket, dtype=torch.int64, device=device)
        self._given: dict[tuple[int, ...], np.ndarray[Any, Any]] = {}

    def logits(self, slots: list[int]) -> Tensor:
        """f32[bucket, V] of the next step."""
        given = self._given.setdefault(tuple(slots), np.array(slots))
        self.step.prepare(given)
        self.token[: len(slots)] = torch.tensor(slots, device="cuda") * 7 + 1
        logits = self.model.step_logits(self.step, self.token)
        return logits.clone().float()

    def poison_padding(self) -> None:
        """Sets what padded rows read and hold to what must never be seen."""
        self.token.fill_(self.model.vocab_size - 1)
        self.cache.keys[:, -1] = float("nan")
        self.cache.values[:, -1] = float("nan")
