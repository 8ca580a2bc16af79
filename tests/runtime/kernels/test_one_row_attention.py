"""One request's new row attends its pages, however these are cut into parts."""

import pytest
import torch
from torch import Tensor

pytestmark = pytest.mark.gpu

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
PAGE, PAGES = 16, 40


def turned(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    first, second = heads.chunk(2, -1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


class World:
    """A cache of one layer with random rows, and how one more is attended, in float32."""

    def __init__(self, *, heads: int, kv_heads: int, width: int, is_normed: bool) -> None:
        self.heads, self.kv_heads, self.width = heads, kv_heads, width
        generator = torch.Generator(DEVICE).manual_seed(width + heads)

        def normal(*dims: int) -> Tensor:
            return torch.randn(*dims, generator=generator, device=DEVICE)

        self.keys = normal(PAGES, PAGE, kv_heads, width).bfloat16()
        self.values = normal(PAGES, PAGE, kv_heads, width).bfloat16()
        self.pages = torch.randperm(PAGES, generator=generator, device=DEVICE).int()[None]
        angles = normal(PAGE * PAGES, width // 2)
        self.angles = (angles.cos(), angles.sin())
        self.qkv = normal(1, (heads + 2 * kv_heads) * width).bfloat16()
        self.norms = (normal(width).bfloat16(), normal(width).bfloat16()) if is_normed else None

    def rows(self, rows: Tensor) -> Tensor:
        """The request's rows, in a cache's order: [rows, kv heads, width]."""
        return rows[self.pages[0].long()].view(-1, self.kv_heads, self.width)

    def wanted(self, length: int) -> tuple[Tensor, Tensor, Tensor]:
        """(what comes out, the new key, the new value)."""
        row = self.qkv[0].view(-1, self.width).float()
        q, k, v = row.split((self.heads, self.kv_heads, self.kv_heads))
        if self.norms is not None:
            q, k = (
                one * torch.rsqrt(one.square().mean(-1, keepdim=True) + 1e-6) * gain.float()
                for one, gain in zip((q, k), self.norms, strict=True)
            )
        q, k = (turned(one, *(table[length - 1] for table in self.angles)) for one in (q, k))
        keys = torch.cat([self.rows(self.keys)[: length - 1], k[None].bfloat16()]).float()
        values = torch.cat([self.rows(self.values)[: length - 1], v[None]]).float()
        scores = torch.einsum("hgd,thd->hgt", q.view(self.kv_heads, -1, self.width), keys)
        shares = (scores * self.width**-0.5).softmax(-1)
        return torch.einsum("hgt,thd->hgd", shares, values).flatten(), k, v

    def attended(self, length: int, *, is_late: bool, **cut: int) -> Tensor:
        from mstarc_runtime.kernels.one_row_attention import OneRowAttention, OneRowCut

        attend = OneRowAttention(
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_dim=self.width,
            page_size=PAGE,
            cut=OneRowCut(**cut),
            chained=DEVICE.type == "cuda",
            device=DEVICE,
        )
        # Twice: what a run leaves behind is as it was.
        made = [
            torch.full((1, self.heads * self.width), float("nan"), device=DEVICE).bfloat16()
            for _ in range(2)
        ]
        for out in made:
            attend(
                self.qkv,
                out,
                angles=self.angles,
                positions=torch.tensor([length - 1], device=DEVICE),
                lengths=torch.tensor([length], dtype=torch.int32, device=DEVICE),
                pages=self.pages,
                keys=self.keys,
                values=self.values,
                scale=self.width**-0.5,
                norms=self.norms,
                eps=1e-6,
                are_positions_new=is_late,
            )
        assert torch.equal(*made)
        return made[0][0]

    def check(self, length: int, **cut: int) -> None:
        wanted, key, value = self.wanted(length)
        made = self.attended(length, is_late=length % 2 == 0, **cut)
        assert (made.float() - wanted).norm() / wanted.norm() < 5e-3
        kept = self.rows(self.keys)[length - 1]
        assert torch.allclose(kept.float(), key, atol=5e-2)
        assert torch.equal(self.rows(self.values)[length - 1], value.bfloat16())


NEAR = {"rows": 32, "far_queries": 1, "far_parts": 0, "far_rows": 16, "warps": 2}
FAR = {"parts": 2, "rows": 32, "far_queries": 2, "far_parts": 4, "far_rows": 16, "warps": 2}


@pytest.mark.parametrize("length", [1, 2, 33, 34, 65, 128, 129])
def test_a_part_is_held(length: int) -> None:
    world = World(heads=4, kv_heads=2, width=128, is_normed=True)
    world.check(length, parts=4, **NEAR)


@pytest.mark.parametrize("length", [64, 65, 66, 67, 98, 258])
def test_of_more_rows_some_are_taken_at_a_time(length: int) -> None:
    """Up to two parts of 32 rows are held."""
    world = World(heads=4, kv_heads=2, width=128, is_normed=True)
    world.check(length, **FAR)


@pytest.mark.parametrize("length", [16 * 16 + 1, 16 * 16 + 2, 32 * 16 + 1, 32 * 16 + 2])
def test_many_parts_are_added_some_at_a_time(length: int) -> None:
    world = World(heads=1, kv_heads=1, width=128, is_normed=True)
    world.check(length, parts=32, **NEAR | {"rows": 16, "far_parts": 32, "warps": 4})


@pytest.mark.parametrize("length", [1, 33, 100, 130])
def test_heads_may_be_narrow_and_have_no_norm(length: int) -> None:
    world = World(heads=3, kv_heads=1, width=64, is_normed=False)
    world.check(length, **FAR | {"parts": 3, "far_queries": 1})


@pytest.mark.parametrize(("head_dim", "page_size"), [(128, 16), (64, 16), (256, 8), (128, 1)])
def test_a_groups_rows_are_in_one_page(head_dim: int, page_size: int) -> None:
    from mstarc_runtime.kernels.one_row_attention import groups_of, one_row_cut_of

    for most_rows in (1, 17, 512, 513, 4096):
        cut = one_row_cut_of(
            heads=6, kv_heads=2, head_dim=head_dim, page_size=page_size, most_rows=most_rows
        )
        for rows in (cut.rows, cut.far_rows):
            times, rest = divmod(rows, groups_of(cut.warps, head_dim))
            assert not rest and page_size % times == 0
        assert cut.parts == min(16, -(-most_rows // cut.rows))
        assert cut.far_parts or cut.parts * cut.rows >= most_rows
        assert cut.far_queries == 1
