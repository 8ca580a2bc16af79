"""A compiled plan with an array of contexts gives what a context for each entry would give."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.runtime.compiled import run_all

HEAD = """mstar 1
model dreams from "random"
request {
  in  prompt : text
  out out    : text via front.piece
  opt length : int = 3 in 1 .. 9
  opt width  : int = 2 in 1 .. 4
}
node front : host {
  impl "toy:Front"
  op ids(prompt: text) -> (ids: i64[T])
  op piece(token: i64) -> (piece: text)  stateful
}
node lm : kv_cache {
  impl "toy:Lm"
  kv { layers = 1, heads = 1, head_dim = 8 }
  contexts main, CONTEXTS
  op read(ids: i64[T]) -> (token: i64)  attends causal  writes
  op step(token: i64, seed: i64) -> (next: i64)  attends causal  writes
  op look(token: i64) -> (seen: i64)  attends causal  reads
}
node pick : stateless {
  impl "toy:Pick"
  op sum(tokens: i64[K]) -> (token: i64)
}
machine go { state begin { ids = front.ids(prompt)   run dream(ids)   next done } }
"""
ARRAY = (
    HEAD.replace("CONTEXTS", "dream[3]")
    + """
walk dream(ids: i64[T]) {
  first = lm.read(ids)
  fork lm.dream = lm.main
  odd = lm.step(first, 5) on dream[1]
  loop length times as i carry tokens = stack(first, odd, first) {
    tokens = lm.step(tokens, i) on dream
  }
  fork lm.dream[2] = lm.dream[1]
  seen = lm.look(tokens) on dream
  release lm.dream[1]
  last = lm.step(seen, 1) on dream
  token = pick.sum(last)
  emit out <- token
}
"""
)
APART = (
    HEAD.replace("CONTEXTS", "one, two, three")
    + """
walk dream(ids: i64[T]) {
  first = lm.read(ids)
  fork lm.one = lm.main
  fork lm.two = lm.main
  fork lm.three = lm.main
  odd = lm.step(first, 5) on two
  loop length times as i carry a = first, b = odd, c = first {
    a = lm.step(a, i) on one
    b = lm.step(b, i) on two
    c = lm.step(c, i) on three
  }
  fork lm.three = lm.two
  sa = lm.look(a) on one
  sb = lm.look(b) on two
  sc = lm.look(c) on three
  release lm.two
  la = lm.step(sa, 1) on one
  lb = lm.step(sb, 1) on two
  lc = lm.step(sc, 1) on three
  token = pick.sum(stack(la, lb, lc))
  emit out <- token
}
"""
)
WIDE = (
    HEAD.replace("CONTEXTS", "dream[width]")
    + """
walk dream(ids: i64[T]) {
  token = lm.read(ids) on dream
  loop length times as i carry tokens = token { tokens = lm.step(tokens, i) on dream }
  last = lm.step(5, 5) on dream[width - 1]
  emit out <- last
}
"""
)
NARROW = (
    HEAD.replace("CONTEXTS", "dream")
    + """
walk dream(ids: i64[T]) {
  token = lm.read(ids) on dream
  loop length times as i carry tokens = token { tokens = lm.step(tokens, i) on dream }
  last = lm.step(5, 5) on dream
  emit out <- last
}
"""
)
REQUESTS = [(1, 1, 1), (3, 2, 4), (9, 9, 2), (4, 1, 3), (17, 4, 4), (2, 3, 1)]


class Front:
    @classmethod
    def build(cls, config: Mapping[str, Any], **_: Any) -> "Front":
        return cls()

    def ids(self, prompt: str) -> Tensor:
        return torch.arange(len(prompt)) * 7 + len(prompt)


class Lm(nn.Module):
    """Each token attends to all before it with keys of its own, so that every row matters."""

    @classmethod
    def build(cls, config: Mapping[str, Any], **_: Any) -> "Lm":
        return cls()

    def read(self, ctx: Any, ids: Tensor) -> Tensor:
        return self._attend(ctx, ids)[ctx.last_rows]

    def step(self, ctx: Any, token: Tensor, seed: Tensor) -> Tensor:
        return self._attend(ctx, token * 31 + seed)

    def look(self, ctx: Any, token: Tensor) -> Tensor:
        return self._attend(ctx, token + 3)

    def _attend(self, ctx: Any, ids: Tensor) -> Tensor:
        angles = (ids + ctx.positions * 13)[:, None] * torch.arange(1, 9) * 0.37
        rows = torch.sin(angles).view(-1, 1, 8)
        seen = ctx.attend(0, rows, rows.flip(-1).contiguous(), torch.cos(angles).view(-1, 1, 8))
        return (seen.view(-1, 8).sum(1) * 1000).round().to(torch.int64)


class Pick(nn.Module):
    @classmethod
    def build(cls, config: Mapping[str, Any], **_: Any) -> "Pick":
        return cls()

    def sum(self, ctx: Any, tokens: Tensor) -> Tensor:
        return (tokens * torch.arange(1, tokens.shape[1] + 1)).sum(1)


def outcomes(text: str) -> list[Any]:
    """What each request gets."""
    asked = [
        ({"prompt": "x" * letters}, {"length": length, "width": width})
        for letters, length, width in REQUESTS
    ]
    found = run_all(text, {"toy:Front": Front, "toy:Lm": Lm, "toy:Pick": Pick}, asked)
    assert not any(request.failure for request in found), found[0].failure
    return [request.values["out"] for request in found]


@pytest.mark.parametrize(("array", "apart"), [(ARRAY, APART), (WIDE, NARROW)])
def test_an_array_of_contexts_is_as_many_contexts(array: str, apart: str) -> None:
    assert outcomes(array) == outcomes(apart)
