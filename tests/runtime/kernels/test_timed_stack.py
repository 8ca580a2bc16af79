"""Layers whose norms a time decides, by kernels for few rows: what plain torch makes of them."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from mstarc_runtime.attention.backend import Placing

pytestmark = pytest.mark.gpu

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# The interpreter multiplies no bfloat16.
DTYPE = torch.bfloat16 if torch.cuda.is_available() else torch.float32
CLOSE = 2e-2 if torch.cuda.is_available() else 1e-5
WIDTH, INNER, HEADS, HEAD_DIM, PAGE, PAGES, EPS = 64, 128, 2, 32, 4, 8, 1e-6
NUMBERS = 16


@pytest.mark.parametrize(("batch", "each"), [(1, 9), (3, 4)])
def test_layers_are_those_of_plain_torch(batch: int, each: int) -> None:
    from mstarc_runtime.kernels.timed_stack import (
        Cut,
        Cuts,
        EndMatrices,
        LayerMatrices,
        StackSizes,
        TimedRows,
        TimedStack,
    )

    torch.manual_seed(batch)
    qkv_rows = (HEADS + 2) * HEAD_DIM
    layers = [
        LayerMatrices(
            qkv=_matrix(qkv_rows, WIDTH),
            out=_matrix(WIDTH, HEADS * HEAD_DIM),
            gate_up=_matrix(2 * INNER, WIDTH),
            down=_matrix(WIDTH, INNER),
        )
        for _ in range(2)
    ]
    ends = EndMatrices(
        into=_matrix(WIDTH, NUMBERS),
        into_bias=_matrix(1, WIDTH)[0],
        back=_matrix(NUMBERS, WIDTH),
        back_bias=_matrix(1, NUMBERS)[0],
    )
    cuts = Cuts(
        into=Cut(rows=32, columns=16),
        back=Cut(rows=16, columns=64),
        project=Cut(rows=16, columns=64),
        out=Cut(rows=16, columns=16, split=2),
        gate=Cut(rows=32, columns=64),
        down=Cut(rows=32, columns=32, split=2),
    )
    sizes = StackSizes(heads=HEADS, kv_heads=1, head_dim=HEAD_DIM, eps=EPS)
    assert cuts.suit(layers[0], ends, sizes)
    made = (0.5 * torch.randn(batch, 5 * 3 * WIDTH, device=DEVICE)).to(DTYPE)
    times = [
        TimedRows(scale=scale, shift=shift, gate=gate)
        for scale, shift, gate in (part.chunk(3, -1) for part in made.chunk(5, -1))
    ]
    half = torch.randn(batch * each, HEAD_DIM // 2, device=DEVICE)
    angles = torch.cat((half, half), -1)
    turns = (angles.cos(), angles.sin())
    keys = torch.zeros(2, batch * PAGES, PAGE, 1, HEAD_DIM, dtype=DTYPE, device=DEVICE)
    values = torch.zeros_like(keys)
    pages = torch.randperm(batch * PAGES, device=DEVICE).view(batch, PAGES).int()
    lengths = torch.tensor([each + 7 * b + 3 for b in range(batch)], device=DEVICE).int()
    mixing = [_matrix(HEADS * HEAD_DIM, HEADS * HEAD_DIM) for _ in layers]
    asked: list[Tensor] = []

    def placing(layer: int) -> Placing:
        return Placing(keys=keys[layer], values=values[layer], pages=pages, lengths=lengths)

    def attend(layer: int, q: Tensor) -> Tensor:
        asked.append(q.clone())
        return (q.flatten(1).float() @ mixing[layer].float()).to(DTYPE)

    stack = TimedStack(
        layers, ends, sizes, batch=batch, each=each, chained=DEVICE.type == "cuda", cuts=cuts
    )
    x = torch.randn(batch * each, NUMBERS, device=DEVICE)
    found = stack.run(x, times, turns, placing, attend)

    z = functional.linear(x.to(DTYPE).float(), ends.into.float(), ends.into_bias.float())
    at = torch.cat([_rows_at(pages[b], int(lengths[b]), each) for b in range(batch)])
    for number, layer in enumerate(layers):
        first, second = times[2 * number : 2 * number + 2]
        heads = (_normed(z, first, each) @ layer.qkv.float().T).unflatten(1, (-1, HEAD_DIM))
        q, k = _turned(heads[:, :HEADS], turns), _turned(heads[:, HEADS : HEADS + 1], turns)
        assert _error(asked[number], q) < CLOSE
        assert _error(keys[number].view(-1, 1, HEAD_DIM)[at], k) < CLOSE
        assert _error(values[number].view(-1, 1, HEAD_DIM)[at], heads[:, HEADS + 1 :]) < CLOSE
        attended = (q.flatten(1) @ mixing[number].float()) @ layer.out.float().T
        z = z + first.gate.float().repeat_interleave(each, 0) * attended
        gate, up = (_normed(z, second, each) @ layer.gate_up.float().T).chunk(2, -1)
        fed = (functional.gelu(gate, approximate="tanh") * up) @ layer.down.float().T
        z = z + second.gate.float().repeat_interleave(each, 0) * fed
    wanted = functional.linear(
        _normed(z, times[-1], each), ends.back.float(), ends.back_bias.float()
    )
    assert _error(found, wanted) < CLOSE


def _matrix(rows: int, columns: int) -> Tensor:
    return (torch.randn(rows, columns, device=DEVICE) / columns**0.5).to(DTYPE)


def _rows_at(pages: Tensor, length: int, each: int) -> Tensor:
    numbers = torch.arange(length - each, length, device=DEVICE)
    return pages.long()[numbers // PAGE] * PAGE + numbers % PAGE


def _normed(z: Tensor, time: object, each: int) -> Tensor:
    scale, shift = (
        getattr(time, name).float().repeat_interleave(each, 0) for name in ("scale", "shift")
    )
    return functional.rms_norm(z, (WIDTH,), eps=EPS) * (1 + scale) + shift


def _turned(x: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
    first, second = x.chunk(2, -1)
    cosines, sines = (part[:, None] for part in turns)
    return x * cosines + torch.cat((-second, first), -1) * sines


def _error(found: Tensor, wanted: Tensor) -> float:
    return float((found.float() - wanted).norm() / wanted.norm())
