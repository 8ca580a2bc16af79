"""Rows of which every rank of a group has a part become their sums, with the same bits on each."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from mstarc_runtime.transport.inboxes import Inboxes, inbox_words

pytestmark = pytest.mark.gpu

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CHANNELS = 12


class Ranks:
    """A group whose ranks take turns on one device: first all post, then all take."""

    def __init__(self, count: int) -> None:
        words = inbox_words(count, CHANNELS)
        self.count = count
        self.memory = [torch.zeros(words, dtype=torch.int64, device=DEVICE) for _ in range(count)]
        addresses = tuple(inbox.data_ptr() for inbox in self.memory)
        self.inboxes = [
            Inboxes(
                addresses=addresses,
                epochs=torch.zeros(CHANNELS, dtype=torch.int32, device=DEVICE),
                index=index,
                count=count,
            )
            for index in range(count)
        ]

    def all(self, call: Callable[..., Any]) -> list[Any]:
        """What `call` of (index, inboxes, half) gives on each rank."""
        for index, inboxes in enumerate(self.inboxes):
            call(index, inboxes, posts=True, takes=False)
        return [
            call(index, inboxes, posts=False, takes=True)
            for index, inboxes in enumerate(self.inboxes)
        ]


def normal(*dims: int, seed: int) -> Tensor:
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return torch.randn(*dims, generator=generator, device=DEVICE)


@pytest.mark.parametrize(("count", "batch", "width"), [(2, 1, 2048), (3, 2, 1100), (4, 3, 96)])
def test_rows_are_joined(count: int, batch: int, width: int) -> None:
    from mstarc_runtime.kernels.joined_rows import join_rows, pieces

    ranks = Ranks(count)
    gain = normal(width, seed=9).bfloat16()
    before = normal(batch, width, seed=8)
    residuals = [before.clone() for _ in range(count)]
    made = [torch.full((batch, width), float("nan"), device=DEVICE).bfloat16() for _ in residuals]
    squares = [torch.full((pieces(width), batch), float("nan"), device=DEVICE) for _ in residuals]
    for again in range(5):
        parts = [normal(batch, width, seed=10 * again + index) for index in range(count)]
        wanted = parts[0].clone()
        for part in parts[1:]:
            wanted += part
        wanted += residuals[0]

        def join(index: int, inboxes: Inboxes, given: list[Tensor] = parts, **half: bool) -> object:
            join_rows(
                given[index], inboxes, residual=residuals[index], gain=gain, h=made[index],
                squares=squares[index], chained=False, **half,
            )  # fmt: skip
            return None

        ranks.all(join)
        for index in range(count):
            assert torch.equal(residuals[index], wanted)
            # Near: an interpreter cuts numbers off where a device rounds them.
            assert torch.allclose(made[index].float(), wanted * gain.float(), rtol=1 / 64)
            assert torch.equal(made[index], made[0])
            assert torch.allclose(squares[index].sum(0), wanted.square().sum(1))
            assert torch.equal(squares[index], squares[0])
            assert not parts[index].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_values_are_summed(dtype: torch.dtype) -> None:
    from mstarc_runtime.kernels.joined_rows import SUM, exchange

    ranks = Ranks(3)
    for again in range(3):
        values = [normal(2, 700, seed=3 * again + index).to(dtype) for index in range(3)]
        wanted = values[0].float() + values[1].float() + values[2].float()
        ranks.all(lambda i, inboxes, v=values, **half: exchange(v[i], inboxes, SUM, **half))
        assert all(torch.equal(value, values[0]) for value in values)
        assert torch.allclose(
            values[0].float(), wanted, rtol=1 / 64 if dtype == torch.bfloat16 else 0, atol=0
        )


@pytest.mark.parametrize("dtype", [torch.bool, torch.bfloat16, torch.float32, torch.int64])
def test_values_are_told(dtype: torch.dtype) -> None:
    from mstarc_runtime.kernels.joined_rows import ALL, FIRST, exchange

    ranks = Ranks(2)
    for again in range(3):
        values = [(1e10 * normal(3, 200, seed=2 * again + index)).to(dtype) for index in range(2)]
        every = ranks.all(lambda i, inboxes, v=values, **half: exchange(v[i], inboxes, ALL, **half))
        assert all(torch.equal(made, torch.stack(values)) for made in every)
        first = values[0].clone()
        ranks.all(lambda i, inboxes, v=values, **half: exchange(v[i], inboxes, FIRST, **half))
        assert all(torch.equal(value, first) for value in values)


def test_only_what_has_been_posted_now_is_taken() -> None:
    """An old number of a place is none of now: its epoch is told beside it."""
    from mstarc_runtime.kernels.joined_rows import SUM, exchange

    ranks = Ranks(2)
    values = [torch.ones(4, device=DEVICE) for _ in range(2)]
    for _ in range(4):
        ranks.all(lambda i, inboxes, **half: exchange(values[i], inboxes, SUM, **half))
    stamps = (ranks.memory[0] >> 32).unique().tolist()
    # Places of this rank's own numbers stay empty, as those of channels that nobody uses do.
    assert stamps == [0, 3, 4]
    assert [inboxes.epochs[0].item() for inboxes in ranks.inboxes] == [4, 4]
