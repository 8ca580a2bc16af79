"""ALBERT: one transformer layer, applied many times over the phonemes."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_EPSILON = 1e-12


class Albert(nn.Module):
    """Phoneme ids i64[B, P] → features [B, P, hidden_size]; every phoneme sees every other."""

    def __init__(self, vocabulary: int, config: Mapping[str, Any]) -> None:
        super().__init__()
        hidden, embedding = int(config["hidden_size"]), int(config["embedding_size"])
        positions = int(config["max_position_embeddings"])
        self.embeddings = _Embeddings(vocabulary, positions, embedding)
        self.encoder = _Encoder(embedding, hidden, config)

    def forward(self, ids: Tensor) -> Tensor:
        features: Tensor = self.encoder(self.embeddings(ids))
        return features


class _Embeddings(nn.Module):
    def __init__(self, vocabulary: int, positions: int, width: int) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(vocabulary, width)
        self.position_embeddings = nn.Embedding(positions, width)
        self.token_type_embeddings = nn.Embedding(2, width)
        self.LayerNorm = nn.LayerNorm(width, eps=_EPSILON)

    def forward(self, ids: Tensor) -> Tensor:
        summed = self.word_embeddings(ids)
        summed = summed + self.position_embeddings.weight[: ids.shape[1]]
        summed = summed + self.token_type_embeddings.weight[0]
        normed: Tensor = self.LayerNorm(summed)
        return normed


class _Encoder(nn.Module):
    def __init__(self, embedding: int, hidden: int, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.embedding_hidden_mapping_in = nn.Linear(embedding, hidden)
        layer = _Layer(hidden, int(config["num_attention_heads"]), int(config["intermediate_size"]))
        group = nn.Module()
        group.albert_layers = nn.ModuleList([layer])
        self.albert_layer_groups = nn.ModuleList([group])
        self._passes = int(config["num_hidden_layers"])

    def forward(self, embedded: Tensor) -> Tensor:
        hidden: Tensor = self.embedding_hidden_mapping_in(embedded)
        layer = self.get_submodule("albert_layer_groups.0.albert_layers.0")
        for _ in range(self._passes):
            hidden = layer(hidden)
        return hidden


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.attention = _Attention(width, heads)
        self.ffn = nn.Linear(width, inner)
        self.ffn_output = nn.Linear(inner, width)
        self.full_layer_layer_norm = nn.LayerNorm(width, eps=_EPSILON)

    def forward(self, hidden: Tensor) -> Tensor:
        attended = self.attention(hidden)
        inner = F.gelu(self.ffn(attended), approximate="tanh")
        result: Tensor = self.full_layer_layer_norm(self.ffn_output(inner) + attended)
        return result


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self._heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.dense = nn.Linear(width, width)
        self.LayerNorm = nn.LayerNorm(width, eps=_EPSILON)

    def forward(self, hidden: Tensor) -> Tensor:
        query, key, value = (
            torch.unflatten(project(hidden), -1, (self._heads, -1)).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        attended = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        result: Tensor = self.LayerNorm(hidden + self.dense(attended))
        return result
