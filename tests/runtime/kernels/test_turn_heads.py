"""Queries and keys that a kernel turns are those of plain torch."""

import pytest
import torch

pytestmark = pytest.mark.gpu

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def test_heads_are_turned() -> None:
    from mstarc_runtime.kernels.turn_heads import turn_heads
    from mstarc_runtime.models.vjepa2.blocks import places, turned, turns

    torch.manual_seed(0)
    heads, width, rows, films = 3, 16, 4, 2
    qkv = torch.randn(films * rows, 3 * heads * width, device=DEVICE)
    by = turns(places(3 * torch.arange(rows, device=DEVICE), 2), width)
    found = turn_heads(qkv, by, heads=heads)
    parts = qkv.unflatten(-1, (3, heads, width))
    cosines, sines = (part.repeat(films, 1)[:, None] for part in by)
    for number in (0, 1):
        wanted = turned(parts[:, number], (cosines, sines))
        torch.testing.assert_close(found[:, number], wanted, atol=1e-6, rtol=1e-6)
