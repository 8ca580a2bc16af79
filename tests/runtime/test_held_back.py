"""A read that knows its last chunk: chunks are held back by one, whenever they come."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.runtime.compiled import run_all

SPEC = """mstar 1
model held from "random"
request {
  in  prompt : text
  out sums   : tensor
  opt length : int = 3 in 0 .. 12
}
node front : host {
  impl "toy:Front"
  op start(prompt: text) -> (x: i64)
}
node net : stateless {
  impl "toy:Net"
  op next(x: i64) -> (x: i64)
  op sum(xs: i64[K]) -> (y: i64)
  op minus(xs: i64[K]) -> (y: i64)
}
stream words : i64 POLICY
stream others : i64 POLICY
walk send_all(x0: i64) {
  loop length times carry x = x0 {
    x = net.next(x)
    send words <- x
    send others <- x
  }
}
walk hear(xs: i64[K], ys: i64[K], last: flag) {
  when last { y = net.minus(xs)   emit sums <- y } else { z = net.sum(ys)   emit sums <- z }
}
machine go { state begin { x = front.start(prompt)   run send_all(x)   next done } }
machine listen {
  state begin {
    each zip(words, others) as xs, ys, last { run hear(xs, ys, last = last) }
    next done
  }
}
"""
POLICIES = {
    "chunk fixed(3) tail short": lambda xs: [xs[i : i + 3] for i in range(0, len(xs), 3)],
    "chunk until(item in [8, 11, 17, 28], max = 3) tail short": None,
    "chunk sliding(window = 4, stride = 2) tail drop": lambda xs: [
        xs[i : i + 4] for i in range(0, len(xs) - 3, 2)
    ],
}


class Front:
    @classmethod
    def build(cls, config: Mapping[str, Any], **_: Any) -> "Front":
        return cls()

    def start(self, prompt: str) -> Tensor:
        return torch.tensor(len(prompt))


class Net(nn.Module):
    @classmethod
    def build(cls, config: Mapping[str, Any], **_: Any) -> "Net":
        return cls()

    def next(self, ctx: Any, x: Tensor) -> Tensor:
        return x + 3

    def sum(self, ctx: Any, xs: Tensor) -> Tensor:
        return xs.sum(1)

    def minus(self, ctx: Any, xs: Tensor) -> Tensor:
        return -xs.sum(1)


def until_some(xs: list[int]) -> list[list[int]]:
    chunks: list[list[int]] = []
    held: list[int] = []
    for x in xs:
        held.append(x)
        if x in (8, 11, 17, 28) or len(held) == 3:
            chunks.append(held)
            held = []
    return chunks + ([held] if held else [])


@pytest.mark.parametrize("policy", POLICIES)
def test_the_last_chunk_is_known(policy: str) -> None:
    cut = POLICIES[policy] or until_some
    asked = [(1, 0), (2, 1), (3, 3), (4, 4), (5, 7), (6, 12), (7, 9)]
    found = run_all(
        SPEC.replace("POLICY", policy),
        {"toy:Front": Front, "toy:Net": Net},
        [({"prompt": "x" * letters}, {"length": length}) for letters, length in asked],
    )
    for request, (letters, length) in zip(found, asked, strict=True):
        assert request.failure is None, request.failure
        sums = [sum(chunk) for chunk in cut([letters + 3 * (n + 1) for n in range(length)])]
        assert request.values.get("sums", []) == [*sums[:-1], *(-last for last in sums[-1:])]
