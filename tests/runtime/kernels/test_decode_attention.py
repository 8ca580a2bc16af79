"""One new row a request attends its pages: positions, appends and attention in one kernel."""

import pytest
import torch
from torch import Tensor

pytestmark = pytest.mark.gpu

PAGE, PAGES = 16, 8


@pytest.mark.parametrize(
    ("heads", "kv_heads", "width", "parts", "rows", "lengths"),
    [
        (6, 2, 128, 3, 64, [100]),
        (4, 4, 64, 2, 32, [1, 2, 33, 128]),
        (24, 8, 128, 1, 128, [17, 128]),
        (8, 1, 64, 16, 64, [128, 5, 1]),
    ],
)
def test_rows_are_turned_appended_and_attended(
    heads: int, kv_heads: int, width: int, parts: int, rows: int, lengths: list[int]
) -> None:
    from mstarc_runtime.kernels.decode_attention import DecodeAttention

    generator = torch.Generator("cuda").manual_seed(sum(lengths))

    def normal(*dims: int) -> Tensor:
        return torch.randn(*dims, generator=generator, device="cuda")

    batch = len(lengths)
    keys = normal(batch * PAGES, PAGE, kv_heads, width).bfloat16()
    values = normal(batch * PAGES, PAGE, kv_heads, width).bfloat16()
    table = torch.randperm(batch * PAGES, device="cuda").view(batch, PAGES).int()
    angles = normal(256, width // 2)
    cosines, sines = angles.cos(), angles.sin()
    qkv = normal(batch, (heads + 2 * kv_heads) * width).bfloat16()
    wanted = []
    for request, length in enumerate(lengths):
        row = qkv[request].view(-1, width)
        turned = _turned(row[: heads + kv_heads], cosines[length - 1], sines[length - 1])
        pages = table[request].long()
        old_k = keys[pages].view(-1, kv_heads, width)[: length - 1]
        old_v = values[pages].view(-1, kv_heads, width)[: length - 1]
        k = torch.cat([old_k, turned[None, heads:]]).float()
        v = torch.cat([old_v, row[None, heads + kv_heads :]]).float()
        q = turned[:heads].float().view(kv_heads, heads // kv_heads, width)
        scores = torch.einsum("hgd,thd->hgt", q, k) * width**-0.5
        wanted.append(torch.einsum("hgt,thd->hgd", scores.softmax(-1), v).reshape(-1))
    attend = DecodeAttention(
        batch=batch,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=width,
        page_size=PAGE,
        parts=parts,
        rows=rows,
        chained=True,
        device=torch.device("cuda"),
    )
    out = torch.full((batch, heads * width), float("nan"), device="cuda").bfloat16()
    attend(
        qkv,
        out,
        angles=(cosines, sines),
        positions=torch.tensor(lengths, device="cuda") - 1,
        lengths=torch.tensor(lengths, dtype=torch.int32, device="cuda"),
        pages=table,
        keys=keys,
        values=values,
        scale=width**-0.5,
    )
    expected = torch.stack(wanted)
    assert (out.float() - expected).norm() / expected.norm() < 5e-3
    for request, length in enumerate(lengths):
        row = qkv[request].view(-1, width)
        kept = keys[table[request].long()].view(-1, kv_heads, width)[length - 1]
        turned = _turned(row[heads : heads + kv_heads], cosines[length - 1], sines[length - 1])
        assert torch.allclose(kept.float(), turned.float(), atol=2e-2)
        kept = values[table[request].long()].view(-1, kv_heads, width)[length - 1]
        assert torch.equal(kept, row[heads + kv_heads :])


def _turned(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    first, second = heads.float().chunk(2, -1)
    return torch.cat(
        (first * cosine - second * sine, second * cosine + first * sine), dim=-1
    ).bfloat16()
