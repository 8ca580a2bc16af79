"""On a CPU a request's logits and tokens have the same bits alone and in any batch.

As an engine runs it: packed calls one request at a time, steps always at one number of rows.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mstarc_runtime.engine.context import StepContext
from mstarc_runtime.engine.packed_context import PackedContext
from mstarc_runtime.layers.linear import pack
from mstarc_runtime.layers.sampler import SamplerState, SamplingSettings
from mstarc_runtime.models.llama import Decoder
from tests.support.parity import CPU, cache_for

ROWS = 8
STEPS = 5
VOCAB = 3000
# SmolLM2-135M's shapes, so that matrices are cut up as they are there; two layers of it.
CONFIG: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 2,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "hidden_act": "silu",
    "max_position_embeddings": 256,
    "tie_word_embeddings": True,
}
REQUESTS = [
    ([5, 6, 7, 8], SamplingSettings(temperature=0.7, top_p=0.8, repetition_penalty=1.3, seed=1)),
    ([9] * 17, SamplingSettings()),
    ([100, 200], SamplingSettings(temperature=1.2, top_k=20, seed=2)),
    (list(range(31)), SamplingSettings(temperature=0.7, seed=1)),
    ([1], SamplingSettings(repetition_penalty=1.1)),
    ([4, 4, 4], SamplingSettings(temperature=2.0, seed=-7)),
    ([2999, 0, 17], SamplingSettings(temperature=0.7, top_p=0.3, seed=9)),
]


class Recording(SamplerState):
    """A sampler that keeps the logits that it was given."""

    def __init__(self) -> None:
        super().__init__(slots=ROWS, vocab=VOCAB, device=CPU, penalised=True)
        self.logits: list[Tensor] = []

    def sample(self, logits: Tensor, slots: Tensor, host_slots: list[int]) -> Tensor:
        self.logits.append(logits.clone())
        return super().sample(logits, slots, host_slots)


@pytest.fixture(scope="module", params=["plain", "packed"])
def model(request: pytest.FixtureRequest) -> Decoder:
    made = Decoder.build(CONFIG, dtype=torch.float32, device=CPU)
    generator = torch.Generator().manual_seed(4)
    for parameter in made.parameters():
        if parameter.ndim > 1:
            parameter.normal_(0.0, 0.08, generator=generator)
        else:
            parameter.fill_(1.0)
    if request.param == "packed":
        pack(made, rows=ROWS)
    return made


@pytest.fixture(params=[1, 2], ids=["one-thread", "two-threads"], autouse=True)
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


@torch.inference_mode()
def run(model: Decoder, order: list[int], slots: list[int]) -> dict[int, tuple[Tensor, Tensor]]:
    """(logits [STEPS + 1, V], tokens) of the requests in `order`, all in one batch."""
    cache, backend = cache_for(layers=2, kv_heads=3, head_dim=64, page_size=16)
    sampler = Recording()
    samplers = {"default": sampler}
    first = []
    for request, slot in zip(order, slots, strict=True):
        prompt, settings = REQUESTS[request]
        sampler.admit(slot, settings)
        context = PackedContext(
            cache=cache,
            backend=backend,
            samplers=samplers,
            slots=np.array([slot]),
            counts=np.array([len(prompt)]),
        )
        first.append(model.prefill(context, torch.tensor(prompt)))
    prefilled = torch.cat(sampler.logits)
    sampler.logits.clear()
    tokens = [torch.cat([*first, torch.full((ROWS - len(order),), 3)])]
    step = StepContext(cache=cache, backend=backend, samplers=samplers, bucket=ROWS)
    batch = np.array(slots)
    for _ in range(STEPS):
        step.prepare(batch)
        tokens.append(model.step(step, tokens[-1]))
    return {
        request: (
            torch.stack([prefilled[row], *(logits[row] for logits in sampler.logits)]),
            torch.stack([made[row] for made in tokens]),
        )
        for row, request in enumerate(order)
    }


def test_bits_depend_on_no_other_request(model: Decoder) -> None:
    alone = {
        request: run(model, [request], [request % ROWS])[request]
        for request in range(len(REQUESTS))
    }
    assert len(torch.cat([tokens for _, tokens in alone.values()]).unique()) > 12
    for order in ([0, 1, 2, 3, 4, 5, 6], [6, 3, 0, 5, 1, 4, 2], [2, 6]):
        together = run(model, order, list(range(len(order))))
        for request in order:
            for mine, theirs in zip(alone[request], together[request], strict=True):
                assert torch.equal(mine, theirs)
