"""A decoder's step, captured once as a CUDA graph, says what it says when run as it is."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mstarc_runtime.attention.backend import AttentionBackend
from mstarc_runtime.attention.torch_reference import TorchAttention
from mstarc_runtime.engine.context import StepContext
from mstarc_runtime.engine.packed_context import PackedContext
from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.layout import CacheLayout
from mstarc_runtime.layers.sampler import SamplerState, SamplingSettings
from mstarc_runtime.models.orpheus import LanguageModel

pytestmark = pytest.mark.gpu

BUCKET = 4
PROMPTS = {0: list(range(20)), 2: [5], 3: [7, 8, 9]}
CONFIG: dict[str, Any] = {
    "vocab_size": 3000,
    "hidden_size": 768,
    "intermediate_size": 1024,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "hidden_act": "silu",
    "max_position_embeddings": 512,
}


class World:
    """A cache, samplers and a step context over one model."""

    def __init__(self, model: LanguageModel, backend: str) -> None:
        self.model = model
        self.device = torch.device("cuda")
        layout = CacheLayout(
            layers=3, kv_heads=2, head_dim=128, pages=128, page_size=16, slots=4, max_rows=256
        )
        cache = KVCache(layout, dtype=torch.bfloat16, device=self.device)
        made = _backend(cache, backend)
        sampler = SamplerState(slots=4, vocab=3000, device=self.device, mode="draw", penalised=True)
        self.samplers = {"default": sampler}
        self.step = StepContext(cache=cache, backend=made, samplers=self.samplers, bucket=BUCKET)
        self.token = torch.zeros(BUCKET, dtype=torch.int64, device=self.device)
        for slot, prompt in PROMPTS.items():
            sampler.admit(
                slot,
                SamplingSettings(
                    temperature=0.6 if slot else 0.0, top_p=0.8, repetition_penalty=1.3, seed=slot
                ),
            )
            context = PackedContext(
                cache=cache,
                backend=made,
                samplers=self.samplers,
                slots=np.array([slot]),
                counts=np.array([len(prompt)]),
            )
            model.prefill(context, torch.tensor(prompt, device=self.device))

    def run(self) -> Tensor:
        self.token.copy_(self.model.step(self.step, self.token))
        return self.token


def _backend(cache: KVCache, name: str) -> AttentionBackend:
    if name == "torch":
        return TorchAttention(cache, row_by_row=False)
    if name == "kernels":
        from mstarc_runtime.attention.paged_decode import PagedDecodeAttention

        return PagedDecodeAttention(cache, TorchAttention(cache, row_by_row=False))
    pytest.importorskip("flashinfer")
    from mstarc_runtime.attention.flashinfer import FlashInferAttention

    return FlashInferAttention(cache)


@pytest.mark.parametrize("backend", ["torch", "flashinfer", "kernels"])
@torch.inference_mode()
def test_a_captured_step_says_the_same(backend: str) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    device = torch.device("cuda")
    model = LanguageModel.build(CONFIG, dtype=torch.bfloat16, device=device)
    generator = torch.Generator(device).manual_seed(1)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.normal_(0.0, 0.06, generator=generator)
        else:
            parameter.fill_(1.0)
    eager, captured = World(model, backend), World(model, backend)
    warm = np.array([0])
    for world in (eager, captured):
        world.step.prepare(warm)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            world.run()
        torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured.run()
    # Capture runs nothing: both have made one step.
    for slots in (warm, np.array([3, 0, 2]), np.array([2, 3])):
        for world in (eager, captured):
            world.token.fill_(11)
        for _ in range(40):
            eager.step.prepare(slots)
            captured.step.prepare(slots)
            expected = eager.run()
            graph.replay()
            count = slots.size
            assert torch.equal(captured.token[:count], expected[:count])
    assert captured.token[:2].tolist() != [11, 11]
