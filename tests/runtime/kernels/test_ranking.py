"""What `Ranking` leaves is what `top_k` leaves, ids of equal keys by their order."""

import pytest
import torch

from mstarc_runtime.layers.sampler import KEYS_A_LOGIT, LAST_KEY, penalise

pytestmark = pytest.mark.gpu

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("vocab", [3000, 40000])
@pytest.mark.parametrize("is_penalised", [False, True])
def test_the_first_are_left(vocab: int, is_penalised: bool) -> None:
    from mstarc_runtime.kernels.ranking import Ranking

    generator = torch.Generator(DEVICE).manual_seed(vocab)
    settings = torch.rand(3, 6, generator=generator, device=DEVICE) + 0.5
    settings[0, 4] = 0.0
    ranks = torch.tensor([0, 1, 7, 50, 50, vocab], device=DEVICE)
    slots = torch.tensor([5, 3, 0, 4, 1, 2], device=DEVICE)
    logits = torch.randn(6, vocab, generator=generator, device=DEVICE)
    logits = (logits * 8).round() / 8  # many are equal
    logits[3, 40:] = float("-inf")  # fewer are left than are asked for
    seen = torch.rand(6, vocab, generator=generator, device=DEVICE) < 0.2
    changed = penalise(logits, seen[slots], settings[2, slots]) if is_penalised else logits
    scaled = changed / torch.where(settings[0, slots] > 0, settings[0, slots], 1.0)[:, None]
    keys = (scaled.amax(-1, keepdim=True) - scaled) * KEYS_A_LOGIT
    order = keys.clamp(max=LAST_KEY).long().argsort(dim=-1, stable=True)
    rank = Ranking(batch=6, chained=DEVICE.type == "cuda", device=DEVICE)
    for _ in range(2):  # what it counts with is zero again
        made = logits.clone()
        rank(
            made,
            settings=settings,
            ranks=ranks,
            slots=slots,
            seen=seen.to(torch.int8) if is_penalised else None,
        )
    for row, slot in enumerate(slots.tolist()):
        count = int(ranks[slot])
        if count == 0 or settings[0, slot] == 0:
            count = vocab
        wanted = torch.full_like(made[row], float("-inf"))
        wanted[order[row, :count]] = logits[row, order[row, :count]]
        assert torch.equal(made[row], wanted), (row, slot)
