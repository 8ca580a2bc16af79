"""A decoder's step by our kernels: near plain torch, and the same whoever the neighbours are."""

from typing import Any

import pytest
import torch
from torch import Tensor

from mstarc_runtime.models.orpheus import LanguageModel
from tests.support.decode_world import DecodeWorld, random_decoder

pytestmark = pytest.mark.gpu

CONFIG: dict[str, Any] = {
    "vocab_size": 3000,
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "hidden_act": "silu",
    "max_position_embeddings": 512,
}
LENGTHS = {0: 20, 1: 1, 2: 33, 3: 300, 4: 16, 5: 15, 6: 64, 7: 100}


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return random_decoder(LanguageModel, CONFIG)


@torch.inference_mode()
def test_logits_are_those_of_plain_torch(model: LanguageModel) -> None:
    for bucket in (1, 4, 8):
        plain = DecodeWorld(model, bucket=bucket, lengths=LENGTHS, by_kernels=False)
        ours = DecodeWorld(model, bucket=bucket, lengths=LENGTHS, by_kernels=True)
        slots = list(range(bucket))
        for _ in range(3):
            wanted, made = plain.logits(slots), ours.logits(slots)
            assert (made - wanted).norm() / wanted.norm() < 2e-2


@torch.inference_mode()
def test_a_row_depends_on_its_bucket_only(model: LanguageModel) -> None:
    """Alone among padding, and in any place among any neighbours, bit for bit."""

    def rows(slots: list[int], wanted: int) -> Tensor:
        world = DecodeWorld(model, bucket=8, lengths=LENGTHS, by_kernels=True)
        place = slots.index(wanted)
        return torch.stack([world.logits(slots)[place] for _ in range(20)])

    alone = rows([3], 3)
    assert torch.equal(rows([0, 3, 2], 3), alone)
    assert torch.equal(rows([7, 6, 5, 4, 3, 2, 1, 0], 3), alone)


@torch.inference_mode()
def test_padding_touches_nobody(model: LanguageModel) -> None:
    """What lies in the padded rows, and on their page, changes no request."""
    clean = DecodeWorld(model, bucket=8, lengths=LENGTHS, by_kernels=True)
    poisoned = DecodeWorld(model, bucket=8, lengths=LENGTHS, by_kernels=True)
    poisoned.poison_padding()
    for _ in range(20):
        wanted, made = clean.logits([5, 1]), poisoned.logits([5, 1])
        assert torch.equal(made[:2], wanted[:2])
