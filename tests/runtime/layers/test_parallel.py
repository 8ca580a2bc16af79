"""Sharded layers give what whole ones give, from the weights of the whole ones."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.layers.mlp import GatedMLP
from mstarc_runtime.layers.parallel import ColumnLinear, HeadLinear, RowLinear, ShardedEmbedding
from mstarc_runtime.layers.shard import WHOLE, Shard, portions
from mstarc_runtime.models import llama
from mstarc_runtime.weights.load import load
from mstarc_runtime.weights.random import randomise
from tests.support.threaded_group import on_shards

CPU: dict[str, Any] = {"dtype": torch.float32, "device": torch.device("cpu")}
CONFIG = {
    "vocab_size": 51,
    "hidden_size": 24,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 6,
    "hidden_act": "silu",
    "attention_bias": True,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}


class Layers(nn.Module):
    """One of each."""

    def __init__(self, shard: Shard) -> None:
        super().__init__()
        self.table = ShardedEmbedding(11, 12, shard=shard, **CPU)
        self.table.use_as_head()
        self.mlp = GatedMLP(12, 10, bias=True, shard=shard, **CPU)
        self.head = HeadLinear(12, 13, shard=shard, **CPU)

    def forward(self, ids: Tensor) -> tuple[Tensor, ...]:
        x = self.table(ids)
        y = self.mlp(x)
        return x, y, self.head(y), self.table.project(y)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_parts_make_what_the_whole_makes(count: int) -> None:
    ids = torch.tensor([0, 3, 10, 5, 5])

    def work(shard: Shard) -> tuple[Tensor, ...]:
        layers = Layers(shard)
        randomise(layers, seed=4)
        made: tuple[Tensor, ...] = layers(ids)
        return made

    whole = work(WHOLE)
    for made in on_shards(count, work):
        assert torch.equal(made[0], whole[0]), "an embedding is copied, not computed"
        for one, other in zip(made, whole, strict=True):
            assert one.shape == other.shape
            torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


def parts_of(name: str, whole: nn.Module, shards: list[nn.Module]) -> bool:
    """Whether every value of a sharded parameter is the whole one's."""
    expected = whole.get_parameter(name)
    for shard in shards:
        held = portions(shard)
        own = shard.get_parameter(name)
        if name not in held:
            if not torch.equal(own, expected):
                return False
            continue
        pieces = [expected.narrow(held[name].dim, a, b - a) for a, b in held[name].ranges]
        if not torch.equal(own, torch.cat(pieces, held[name].dim)):
            return False
    return True


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("kind", ["random", "file"])
def test_weights_of_a_shard_are_slices_of_the_whole(count: int, kind: str, tmp_path: Path) -> None:
    whole = llama.Decoder.build(CONFIG, **CPU)
    randomise(whole, seed=3)
    shards = [
        llama.Decoder.build(CONFIG, shard=Shard(index=i, count=count), **CPU) for i in range(count)
    ]
    if kind == "file":
        tensors: dict[str, Tensor] = {}
        for name, names in whole.weight_map().items():
            value = whole.get_parameter(name)
            sizes = {3: (24, 12, 12), 2: (20, 20)}
            parts = [value] if isinstance(names, str) else value.split(sizes[len(names)])
            for full, part in zip([names] if isinstance(names, str) else names, parts, strict=True):
                tensors[full] = part.clone()
        save_file(tensors, str(tmp_path / "model.safetensors"))
    for shard in shards:
        if kind == "file":
            load(shard, tmp_path)
        else:
            randomise(shard, seed=3)
    for name, _ in whole.named_parameters():
        assert parts_of(name, whole, list(shards)), name
    held = sum(p.numel() for p in shards[0].parameters())
    total = sum(p.numel() for p in whole.parameters())
    assert held < 0.8 * total


def test_a_shard_of_another_checkpoint_is_refused(tmp_path: Path) -> None:
    layer = ColumnLinear(4, [(6, (0, 3))], **CPU)
    save_file({"weight": torch.zeros(8, 4)}, str(tmp_path / "model.safetensors"))
    with pytest.raises(RuntimeFailure) as caught:
        load(layer, tmp_path)
    assert caught.value.code == "MS9105"
    assert "[8, 4]" in caught.value.message


def test_heads_that_cannot_be_divided_are_refused() -> None:
    with pytest.raises(RuntimeFailure) as caught:
        llama.Decoder.build(CONFIG, shard=Shard(index=0, count=3), **CPU)
    assert caught.value.code == "MS9012"
    assert "4 attention heads" in caught.value.message


@pytest.mark.parametrize(
    ("total", "count", "expected"),
    [(8, 2, [(0, 4), (4, 8)]), (2, 4, [(0, 1), (0, 1), (1, 2), (1, 2)]), (1, 2, [(0, 1), (0, 1)])],
)
def test_fewer_key_value_heads_than_parts_are_held_several_times(
    total: int, count: int, expected: list[tuple[int, int]]
) -> None:
    assert [Shard(index=i, count=count).kv_heads(total) for i in range(count)] == expected


def test_a_whole_shard_has_no_portions() -> None:
    assert not portions(llama.Decoder.build(CONFIG, **CPU))
    assert not RowLinear(4, 3, held=(0, 4), **CPU).portions
