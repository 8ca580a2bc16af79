"""Values that are used in later steps than the one that makes them: items, host values, ends."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from mstarc_runtime.plan_api import Maybe
from tests.runtime.compiled import run_all

SPEC = """mstar 1
model later from "random"
request {
  in  prompt : text
  out told   : tensor
  out sums   : tensor
  out note   : text via front.piece
  opt length : int = 3 in 1 .. 9
}
node front : host {
  impl "toy:Front"
  op ids(prompt: text) -> (ids: i64[T])
  op double(x: i64) -> (x: i64)
  op piece(token: i64) -> (piece: text)  stateful
}
node net : stateless {
  impl "toy:Net"
  op next(x: i64) -> (x: i64)
  op tell(x: i64, item: i64 or none) -> (y: i64)
  op sum(xs: i64[K], ys: i64[K]) -> (y: i64)
}
node lm : kv_cache {
  impl "toy:Lm"
  kv { layers = 1, heads = 1, head_dim = 8 }
  op read(ids: i64[T]) -> (token: i64)  attends causal  writes
}
stream words : (x: i64, by: i64) chunk until(item.x in [5, 9] or item.by == 1, max = 3) tail short
stream items : i64 chunk fixed(1)
walk send_all(ids: i64[T]) {
  first = lm.read(ids)
  send words <- ids, 0
  loop length times carry x = first {
    x = net.next(x)
    send words <- x, 2
    send items <- x
  }
  send words <- first, 1
}
walk hear(xs: i64[K], ys: i64[K]) { y = net.sum(xs, ys)   emit sums <- y }
walk follow() {
  one = pull items
  loop 4 times carry x = one {
    item = pull items or none
    twice = front.double(x)
    x = net.tell(twice, item)
    emit told <- x
    emit note <- twice
  }
}
machine go { state begin { ids = front.ids(prompt)   run send_all(ids)   next done } }
machine listen { state begin { each words as w { run hear(w.x, w.by) }   next done } }
machine last { state begin { run follow()   next done } }
"""


class Front:
    @classmethod
    def build(cls, config: Mapping[str, Any], **_: Any) -> "Front":
        return cls()

    def ids(self, prompt: str) -> Tensor:
        return torch.arange(len(prompt)) + 3

    def double(self, x: Tensor) -> Tensor:
        return x * 2


class Net(nn.Module):
    @classmethod
    def build(cls, config: Mapping[str, Any], **_: Any) -> "Net":
        return cls()

    def next(self, ctx: Any, x: Tensor) -> Tensor:
        return x + 2

    def tell(self, ctx: Any, x: Tensor, item: Maybe) -> Tensor:
        assert not item.value[~item.there].any()
        return torch.where(item.there, x + 100 * item.value, -x)

    def sum(self, ctx: Any, xs: Tensor, ys: Tensor) -> Tensor:
        return xs.sum(1) * 10 + ys.sum(1)


class Lm(nn.Module):
    @classmethod
    def build(cls, config: Mapping[str, Any], **_: Any) -> "Lm":
        return cls()

    def read(self, ctx: Any, ids: Tensor) -> Tensor:
        return ids[ctx.last_rows]


def meant(letters: int, length: int) -> tuple[list[int], list[int], list[int]]:
    """What is told, the sums of chunks, and what is noted."""
    ids = [n + 3 for n in range(letters)]
    items = [ids[-1] + 2 * (n + 1) for n in range(length)]
    sent = [*((x, 0) for x in ids), *((x, 2) for x in items), (ids[-1], 1)]
    sums, held = [], []
    for x, by in sent:
        held.append((x, by))
        if x in (5, 9) or by == 1 or len(held) == 3:
            sums.append(10 * sum(a for a, _ in held) + sum(b for _, b in held))
            held = []
    x, told, notes = items[0], [], []
    for n in range(4):
        item = items[n + 1] if n + 1 < length else None
        notes.append(2 * x)
        x = -2 * x if item is None else 2 * x + 100 * item
        told.append(x)
    return told, sums, notes


def test_what_is_made_in_one_step_is_used_in_another() -> None:
    asked = [(1, 1), (2, 3), (5, 9), (3, 2), (8, 4)]
    found = run_all(
        SPEC,
        {"toy:Front": Front, "toy:Net": Net, "toy:Lm": Lm},
        [({"prompt": "x" * letters}, {"length": length}) for letters, length in asked],
    )
    for request, (letters, length) in zip(found, asked, strict=True):
        assert request.failure is None, request.failure
        told, sums, notes = meant(letters, length)
        assert request.values["told"] == told
        assert request.values["sums"] == sums
        assert request.values["note"] == notes
