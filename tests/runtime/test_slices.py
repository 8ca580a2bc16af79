"""Reshapes that differ from request to request: by an option, or by the number of a pass."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tests.runtime.compiled import run_all

SPEC = """mstar 1
model shapes from "random"
request {
  in  prompt : text
  out piece  : tensor
  out rows   : tensor
  out all    : tensor
  out grown  : tensor
  opt length : int = 3 in 1 .. 5
  opt at     : int = 0 in 0 .. 4
}
node front : host {
  impl "toy:Front"
  op ids(prompt: text) -> (ids: i64[6])
  op one(x: f32[2]) -> (x: f32[2])
}
node net : stateless {
  impl "toy:Net"
  op table(ids: i64[6]) -> (x: f32[6, 2])
  op add(x: f32[2], n: i64) -> (x: f32[2])
  op scale(x: f32[K, 2], n: i64) -> (x: f32[K, 2])
}
walk run(ids: i64[6]) -> (last: f32[2]) {
  x = net.table(ids)
  emit piece <- x[at]
  emit piece <- x[length - 1 : length + 1]
  emit rows <- x[0 : length]
  loop length times as i carry y = x[at], z = repeat(x[at], length) collect all = y {
    y = net.add(x[i], i)
    z = net.scale(z, i)
    emit piece <- x[i : i + 2]
    emit grown <- z
  }
  emit all <- all
  last = net.add(concat(y[0:1], x[at, 1:2]), 1)
}
walk more(x: f32[2]) {
  loop length times as i carry z = repeat(x, length) collect each_one = z { z = net.scale(z, 1) }
  emit grown <- each_one
  emit piece <- x
}
machine go {
  state begin {
    ids = front.ids(prompt)
    last = run run(ids)
    x = front.one(last)
    run more(x)
    next done
  }
}
"""


class Front:
    @classmethod
    def build(cls, config: Mapping[str, Any], **_: Any) -> "Front":
        return cls()

    def ids(self, prompt: str) -> Tensor:
        return torch.arange(6) + len(prompt)

    def one(self, x: Tensor) -> Tensor:
        return x * 2


class Net(nn.Module):
    @classmethod
    def build(cls, config: Mapping[str, Any], **_: Any) -> "Net":
        return cls()

    def table(self, ctx: Any, ids: Tensor) -> Tensor:
        return torch.stack([ids.to(torch.float32), ids * 10.0], dim=-1)

    def add(self, ctx: Any, x: Tensor, n: Tensor) -> Tensor:
        return x + n[:, None]

    def scale(self, ctx: Any, x: Tensor, n: Tensor) -> Tensor:
        return x * (n + 2).view(-1, 1, 1)


def meant(letters: int, length: int, at: int) -> dict[str, list[Any]]:
    """What a request gets, step by step."""
    x = [[float(n + letters), 10.0 * (n + letters)] for n in range(6)]
    pieces = [x[at], x[length - 1 : length + 1]]
    y, z, kept, grown = x[at], [x[at]] * length, [], []
    for i in range(length):
        y = [value + i for value in x[i]]
        z = [[value * (i + 2) for value in row] for row in z]
        kept.append(y)
        pieces.append(x[i : i + 2])
        grown.append(z)
    last = [2 * (y[0] + 1), 2 * (x[at][1] + 1)]
    again = [[[value * 3 ** (i + 1) for value in last]] * length for i in range(length)]
    return {
        "piece": [*pieces, last],
        "rows": [x[0:length]],
        "all": [kept],
        "grown": [*grown, again],
    }


def test_requests_slice_as_they_say() -> None:
    asked = [(1, 3, 0), (2, 1, 4), (3, 5, 2), (4, 3, 3), (5, 4, 1)]
    found = run_all(
        SPEC,
        {"toy:Front": Front, "toy:Net": Net},
        [({"prompt": "x" * n}, {"length": length, "at": at}) for n, length, at in asked],
    )
    for request, (letters, length, at) in zip(found, asked, strict=True):
        assert request.failure is None, request.failure
        assert request.values == meant(letters, length, at)
