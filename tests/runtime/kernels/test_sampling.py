"""The kernels choose the token that the reference chooses, without sorting."""

import pytest
import torch

from mstarc_runtime.layers.sampler import draw_tokens, penalise

pytestmark = pytest.mark.gpu

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SLOTS = 20


@pytest.mark.parametrize("vocab", [2500, 156940])
@pytest.mark.parametrize("spread", [0.0, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("batch", [1, 5, 16])
@pytest.mark.parametrize("is_penalised", [False, True])
def test_tokens_are_those_of_the_reference(
    vocab: int, spread: float, batch: int, is_penalised: bool
) -> None:
    from mstarc_runtime.kernels.sampling import Draw

    generator = torch.Generator(DEVICE).manual_seed(batch)
    settings = torch.rand(3, SLOTS, generator=generator, device=DEVICE)
    settings[0] = settings[0] * 1.5 + 0.1
    settings[0, 3] = 0.0
    settings[1, 4] = 1.0
    settings[1, 5:8] *= 0.02  # so small a nucleus that no candidate lies in it
    settings[2] += 1.0
    slots = torch.randperm(SLOTS, generator=generator, device=DEVICE)[:batch]
    seeds = torch.randint(-(2**62), 2**62, (SLOTS,), generator=generator, device=DEVICE)
    draws = torch.randint(0, 1000, (SLOTS,), generator=generator, device=DEVICE)
    logits = torch.randn(batch, vocab, generator=generator, device=DEVICE) * spread
    seen = torch.rand(SLOTS, vocab, generator=generator, device=DEVICE) < 0.1
    changed = penalise(logits, seen[slots], settings[2, slots]) if is_penalised else logits
    wanted = draw_tokens(
        changed,
        temperature=settings[0, slots],
        top_k=torch.zeros_like(slots),
        top_p=settings[1, slots],
        seeds=seeds[slots],
        stream=3,
        draws=draws[slots],
    )
    draw = Draw(
        batch=batch,
        vocab=vocab,
        count=SLOTS,
        stream=3,
        chained=DEVICE.type == "cuda",
        device=DEVICE,
    )
    for _ in range(2):
        told, counted = seen.to(torch.int8), draws.clone()
        tokens = torch.full((batch,), -1, device=DEVICE)
        draw(
            logits,
            settings=settings,
            slots=slots,
            seeds=seeds,
            draws=counted,
            seen=told if is_penalised else None,
            tokens=tokens,
        )
        assert torch.equal(tokens, wanted)
        assert torch.equal(counted[slots], draws[slots] + 1)
        if is_penalised:
            assert told[slots, tokens].all()
        assert not draw.arrived.any()
        assert not draw.halves.any()


@pytest.mark.parametrize("top_p", [1e-7, 0.004, 0.2, 0.74, 0.76])
def test_small_nuclei_are_those_of_the_reference(top_p: float) -> None:
    """Requests that no candidate suits, one after another, with a few ids alike at the top."""
    from mstarc_runtime.kernels.sampling import Draw

    batch, vocab = 4, 6000
    generator = torch.Generator(DEVICE).manual_seed(7)
    logits = torch.randn(batch, vocab, generator=generator, device=DEVICE)
    logits[1] = (logits[1] * 4).round() / 4
    logits[2, 100:] = float("-inf")
    logits[3] = 0.0
    settings = torch.ones(3, batch, device=DEVICE)
    settings[1] = top_p
    slots = torch.arange(batch, device=DEVICE)
    draw = Draw(
        batch=batch,
        vocab=vocab,
        count=batch,
        stream=1,
        chained=DEVICE.type == "cuda",
        device=DEVICE,
    )
    counted = torch.zeros(batch, dtype=torch.int64, device=DEVICE)
    tokens = torch.full((batch,), -1, device=DEVICE)
    for number in range(6):
        wanted = draw_tokens(
            logits,
            temperature=settings[0],
            top_k=torch.zeros_like(slots),
            top_p=settings[1],
            seeds=slots + 11,
            stream=1,
            draws=torch.full_like(slots, number),
        )
        draw(
            logits,
            settings=settings,
            slots=slots,
            seeds=slots + 11,
            draws=counted,
            seen=None,
            tokens=tokens,
        )
        assert tokens.tolist() == wanted.tolist()
        assert not draw.halves.any()
