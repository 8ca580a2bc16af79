"""Tokens of a small vocabulary by one kernel are those of the reference, `top_k` included."""

import pytest
import torch

from mstarc_runtime.layers.sampler import draw_tokens, penalise

pytestmark = pytest.mark.gpu

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SLOTS = 20


@pytest.mark.parametrize("vocab", [2048, 3072, 300])
@pytest.mark.parametrize("spread", [0.0, 1.0, 5.0])
@pytest.mark.parametrize("is_penalised", [False, True])
def test_tokens_are_those_of_the_reference(vocab: int, spread: float, is_penalised: bool) -> None:
    from mstarc_runtime.kernels.small_draw import SmallDraw

    batch = 7
    generator = torch.Generator(DEVICE).manual_seed(vocab)
    settings = torch.rand(3, SLOTS, generator=generator, device=DEVICE)
    settings[0] = settings[0] * 1.5 + 0.1
    settings[0, 3] = 0.0
    settings[1, 4:8] = 1.0
    settings[1, 8:12] *= 0.02  # so small a nucleus that no candidate lies in it
    settings[2] += 1.0
    ranks = torch.randint(0, 60, (SLOTS,), generator=generator, device=DEVICE)
    ranks[::4] = 0
    slots = torch.randperm(SLOTS, generator=generator, device=DEVICE)[:batch]
    seeds = torch.randint(-(2**62), 2**62, (SLOTS,), generator=generator, device=DEVICE)
    draws = torch.randint(0, 1000, (SLOTS,), generator=generator, device=DEVICE)
    logits = torch.randn(batch, vocab, generator=generator, device=DEVICE) * spread
    logits[:, ::7] = float("-inf")
    seen = torch.rand(SLOTS, vocab, generator=generator, device=DEVICE) < 0.1
    changed = penalise(logits, seen[slots], settings[2, slots]) if is_penalised else logits
    for given in (None, ranks):
        wanted = draw_tokens(
            changed,
            temperature=settings[0, slots],
            top_k=torch.zeros_like(slots) if given is None else ranks[slots],
            top_p=settings[1, slots],
            seeds=seeds[slots],
            stream=3,
            draws=draws[slots],
        )
        draw = SmallDraw(
            batch=batch,
            vocab=vocab,
            count=SLOTS,
            stream=3,
            chained=DEVICE.type == "cuda",
            device=DEVICE,
        )
        told, counted = seen.to(torch.int8), draws.clone()
        tokens = torch.full((batch,), -1, device=DEVICE)
        draw(
            logits,
            settings=settings,
            ranks=given,
            slots=slots,
            seeds=seeds,
            draws=counted,
            seen=told if is_penalised else None,
            tokens=tokens,
        )
        assert tokens.tolist() == wanted.tolist()
        assert torch.equal(counted[slots], draws[slots] + 1)
        if is_penalised:
            assert told[slots, tokens].all()
