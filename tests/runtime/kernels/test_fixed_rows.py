"""Calls of as many rows a request: heads are turned and placed, then rows attend their pages."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from mstarc_runtime.attention.backend import JoinedHeads
from mstarc_runtime.attention.mask import CAUSAL, FULL, Mask, frames

pytestmark = pytest.mark.gpu

PAGE, PAGES = 16, 12
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("is_normed", [False, True])
@pytest.mark.parametrize(
    ("heads", "kv_heads", "width", "each", "halves"),
    [(4, 4, 64, 20, False), (8, 1, 256, 5, True), (7, 1, 128, 3, True)],
)
def test_heads_are_turned_and_placed(
    heads: int, kv_heads: int, width: int, each: int, halves: bool, is_normed: bool
) -> None:
    from mstarc_runtime.kernels.place_heads import Behind, place

    generator = torch.Generator(DEVICE).manual_seed(heads)
    batch = 2
    qkv = _normal(generator, batch * each, (heads + 2 * kv_heads) * width).bfloat16()
    angles = _normal(generator, batch * each, width)
    norms = tuple(_normal(generator, width).bfloat16() for _ in range(2)) if is_normed else None
    keys, values, table = _cache(generator, batch, kv_heads, width)
    lengths = torch.tensor([each + 9, each], dtype=torch.int32, device=DEVICE)
    before = keys.clone()
    rows = qkv.unflatten(1, (-1, width))
    wanted = rows.clone()
    for first, last, which in ((0, heads, 0), (heads, heads + kv_heads, 1)):
        part = rows[:, first:last].float()
        if norms is not None:
            scaled = part * torch.rsqrt(part.square().mean(-1, keepdim=True) + 1e-6)
            part = (scaled * norms[which].float()).bfloat16().float()
        across = _across(part, halves)
        wanted[:, first:last] = (part * angles[:, None].cos() + across * angles[:, None].sin()).to(
            wanted.dtype
        )
    turns = (angles.cos(), angles.sin())
    part = JoinedHeads(
        qkv=qkv, count=heads, turns=turns, halves=halves, scale=1.0, norms=norms, eps=1e-6
    )
    firsts = lengths - each
    to = Behind(pages=table, lengths=lengths, firsts=firsts, each=each, dummy_page=0)
    q = place([part], keys=keys, values=values, to=to)
    at = torch.cat(
        [
            _rows_at(table[request], torch.arange(length - each, length, device=DEVICE))
            for request, length in enumerate(lengths.tolist())
        ]
    )
    torch.testing.assert_close(q, wanted[:, :heads], atol=0.02, rtol=0.02)
    k_rows, v_rows = (part.view(-1, kv_heads, width) for part in (keys, values))
    torch.testing.assert_close(
        k_rows[at], wanted[:, heads : heads + kv_heads], atol=0.02, rtol=0.02
    )
    assert torch.equal(v_rows[at], wanted[:, heads + kv_heads :])
    untouched = torch.ones(len(k_rows), dtype=torch.bool, device=DEVICE)
    untouched[at] = False
    assert torch.equal(k_rows[untouched], before.view(-1, kv_heads, width)[untouched])
    other_keys, other_values = torch.zeros_like(keys), torch.zeros_like(values)
    order = torch.randperm(len(qkv), generator=generator, device=DEVICE)
    some = [
        replace(part, qkv=qkv[own], turns=(turns[0][own], turns[1][own]), at=own)
        for own in order.split([2, len(qkv) - 2])
    ]
    again = place(some, keys=other_keys, values=other_values, to=at)
    assert torch.equal(again, q)
    assert torch.equal(other_keys.view_as(k_rows)[at], k_rows[at])


@pytest.mark.parametrize("mask", [FULL, CAUSAL, frames(10)])
@pytest.mark.parametrize(
    ("heads", "kv_heads", "width", "each", "lengths"),
    [(2, 2, 64, 20, [20, 150]), (8, 1, 256, 5, [192, 5, 77]), (6, 2, 128, 40, [60])],
)
def test_rows_attend_their_pages(
    heads: int, kv_heads: int, width: int, each: int, lengths: list[int], mask: Mask
) -> None:
    from mstarc_runtime.kernels.fixed_attention import FixedRowsAttention

    generator = torch.Generator(DEVICE).manual_seed(each)
    batch = len(lengths)
    q = _normal(generator, batch * each, heads, width).bfloat16()
    keys, values, table = _cache(generator, batch, kv_heads, width)
    attend = FixedRowsAttention(
        batch=batch,
        each=each,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=width,
        page_size=PAGE,
        mask=mask,
        device=DEVICE,
    )
    held = torch.tensor(lengths, dtype=torch.int32, device=DEVICE)
    given = {"lengths": held, "firsts": held - each, "pages": table, "keys": keys, "values": values}
    first = attend(q, **given, scale=width**-0.5)
    second = attend(q, **given, scale=width**-0.5)
    assert torch.equal(first, second)
    for request, length in enumerate(lengths):
        at = _rows_at(table[request], torch.arange(length, device=DEVICE))
        k, v = (part.view(-1, kv_heads, width)[at].float() for part in (keys, values))
        own = q[request * each : (request + 1) * each].float().unflatten(1, (kv_heads, -1))
        scores = torch.einsum("thgd,shd->hgts", own, k) * width**-0.5
        number = torch.arange(length - each, length, device=DEVICE)
        size = 1 if mask.kind == "causal" else mask.frame_rows
        ends = (number // size + 1) * size if mask.kind != "full" else number * 0 + length
        hidden = torch.arange(length, device=DEVICE) >= ends[:, None]
        weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        wanted = torch.einsum("hgts,shd->thgd", weights, v).flatten(1, 2)
        found = first[request * each : (request + 1) * each].float()
        torch.testing.assert_close(found, wanted, atol=0.02, rtol=0.02)


def _normal(generator: torch.Generator, *dims: int) -> Tensor:
    return torch.randn(*dims, generator=generator, device=DEVICE)


def _cache(
    generator: torch.Generator, batch: int, kv_heads: int, width: int
) -> tuple[Tensor, Tensor, Tensor]:
    keys = _normal(generator, batch * PAGES, PAGE, kv_heads, width).bfloat16()
    values = _normal(generator, batch * PAGES, PAGE, kv_heads, width).bfloat16()
    return keys, values, torch.randperm(batch * PAGES, device=DEVICE).view(batch, PAGES).int()


def _rows_at(table: Tensor, numbers: Tensor) -> Tensor:
    return table.long()[numbers // PAGE] * PAGE + numbers % PAGE


def _across(x: Tensor, halves: bool) -> Tensor:
    if halves:
        first, second = x.chunk(2, dim=-1)
        return torch.cat((-second, first), dim=-1)
    return torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)
