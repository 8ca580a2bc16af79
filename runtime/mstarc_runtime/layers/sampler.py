"""Choosing a token of each row's logits, by the row's own settings and seed.

Order: allowed ids → repetition penalty → temperature → top-k → top-p, then one draw by inverse
CDF over what is left. Temperature 0 takes the greatest logit. The draw's uniform number is a hash
of (seed, sampler's stream, number of the draw), so that a row's token depends on its own logits,
seed and draw only: no generator, no state shared by rows. Everything is tensor arithmetic that a
CUDA graph can capture.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from mstarc_runtime.layers.counter_hash import uniform

SamplerMode = Literal["auto", "greedy", "draw"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingSettings:
    """What a request asks of a sampler. `top_k` 0 and `top_p` 1.0 leave all ids in."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        assert self.temperature >= 0.0, f"temperature {self.temperature}"
        assert self.top_k >= 0, f"top_k {self.top_k}"
        assert 0.0 < self.top_p <= 1.0, f"top_p {self.top_p}"
        assert self.repetition_penalty > 0.0, f"repetition_penalty {self.repetition_penalty}"


GREEDY = SamplingSettings()


def penalise(logits: Tensor, seen: Tensor, penalty: Tensor) -> Tensor:
    """Divides positive and multiplies negative logits of `seen` bool[B, V] by `penalty` f32[B]."""
    factor = penalty[:, None]
    return torch.where(seen, torch.where(logits > 0, logits / factor, logits * factor), logits)


def draw_tokens(
    logits: Tensor, *, temperature: Tensor, top_k: Tensor, top_p: Tensor, uniforms: Tensor
) -> Tensor:
    """i64[B]: a token of each row of `logits` f32[B, V]; the greatest where temperature is 0.

    Ids of equal logits are ordered by id. All settings are [B].
    """
    count = logits.shape[-1]
    cold = temperature <= 0
    scaled = logits / torch.where(cold, 1.0, temperature)[:, None]
    ordered, ids = torch.sort(scaled, dim=-1, descending=True, stable=True)
    probabilities = ordered.softmax(-1)
    cumulative = probabilities.cumsum(-1)
    kept_by_k = torch.where(top_k <= 0, count, top_k.clamp(max=count))[:, None]
    mass = cumulative.gather(1, kept_by_k - 1) * top_p[:, None]
    ranks = torch.arange(count, device=logits.device)
    # The first id is always kept: nothing comes before it.
    kept = (ranks < kept_by_k) & (cumulative - probabilities < mass) & (probabilities > 0)
    kept_cumulative = (probabilities * kept).cumsum(-1)
    target = kept_cumulative[:, -1:] * uniforms[:, None]
    rank = (kept_cumulative <= target).sum(-1, keepdim=True)
    # Rounding may put the target at the very end, behind the last id that was kept.
    rank = torch.minimum(rank, kept.sum(-1, keepdim=True) - 1)
    return torch.where(cold, logits.argmax(-1), ids.gather(1, rank)[:, 0])


class SamplerState:
    """One sampler of a node: the settings, counters and seen ids of every slot, on the device.

    The last row of everything belongs to padding. `mode`: `greedy` never draws, `draw` always
    computes both (what a captured region needs), `auto` draws only if a request of the batch asks
    for it, which gives the same tokens. `stream` keeps the draws of one request's samplers apart.
    `penalised` says whether any request may ask for a repetition penalty; seen ids are kept then.
    """

    def __init__(
        self,
        *,
        slots: int,
        vocab: int,
        device: torch.device,
        stream: int = 0,
        mode: SamplerMode = "auto",
        penalised: bool = False,
        allow: Iterable[int] | None = None,
    ) -> None:
        self.vocab = vocab
        self.stream = stream
        self.mode: SamplerMode = mode
        self._device = device
        self._temperature = torch.zeros(slots + 1, device=device)
        self._top_p = torch.ones(slots + 1, device=device)
        self._penalty = torch.ones(slots + 1, device=device)
        self._top_k = torch.zeros(slots + 1, dtype=torch.int64, device=device)
        self._seed = torch.zeros(slots + 1, dtype=torch.int64, device=device)
        self._draws = torch.zeros(slots + 1, dtype=torch.int64, device=device)
        self._drawing = [False] * (slots + 1)
        self._seen = (
            torch.zeros(slots + 1, vocab, dtype=torch.bool, device=device) if penalised else None
        )
        self._forbidden: Tensor | None = None
        if allow is not None:
            self._forbidden = torch.ones(vocab, dtype=torch.bool, device=device)
            self._forbidden[torch.tensor(sorted(set(allow)), device=device)] = False

    def admit(self, slot: int, settings: SamplingSettings) -> None:
        """Gives a slot to a request: its settings, no draws, nothing seen."""
        assert self._seen is not None or settings.repetition_penalty == 1.0, (
            "this sampler was made without room for a repetition penalty"
        )
        assert self.mode != "greedy" or settings.temperature == 0.0, "a greedy sampler never draws"
        self._drawing[slot] = settings.temperature > 0
        self._temperature[slot] = settings.temperature
        self._top_p[slot] = settings.top_p
        self._penalty[slot] = settings.repetition_penalty
        self._top_k[slot] = settings.top_k
        # The low 64 bits, so that every whole number is a seed.
        self._seed[slot] = (settings.seed + (1 << 63)) % (1 << 64) - (1 << 63)
        self._draws[slot] = 0
        if self._seen is not None:
            self._seen[slot] = False

    def state(self, slot: int) -> tuple[int, Tensor | None] | None:
        """How many draws a slot has made, and bool[V] of the ids it has seen; None if neither."""
        draws = int(self._draws[slot])
        seen = None if self._seen is None else self._seen[slot].clone()
        return None if not draws and (seen is None or not seen.any()) else (draws, seen)

    def restore(self, slot: int, draws: int, seen: Tensor | None) -> None:
        """Goes on where `state` was taken, or from the beginning. Settings stay."""
        self._draws[slot] = draws
        if self._seen is not None:
            self._seen[slot] = False if seen is None else seen.to(self._device)

    def observe(self, slots: Tensor, ids: Tensor) -> None:
        """Marks `ids` i64[R] as seen by the requests in `slots` i64[R]."""
        if self._seen is not None:
            self._seen.view(-1).index_fill_(0, slots * self.vocab + ids, True)

    def sample(self, logits: Tensor, slots: Tensor, host_slots: list[int]) -> Tensor:
        """i64[B] of `logits` [B, V], for `slots` i64[B] (the same as `host_slots`)."""
        logits = logits.float()
        if self._forbidden is not None:
            logits = logits.masked_fill(self._forbidden, float("-inf"))
        if self._seen is not None:
            logits = penalise(
                logits, self._seen.index_select(0, slots), self._penalty.index_select(0, slots)
            )
        if self._draws_for(host_slots):
            tokens = draw_tokens(
                logits,
                temperature=self._temperature.index_select(0, slots),
                top_k=self._top_k.index_select(0, slots),
                top_p=self._top_p.index_select(0, slots),
                uniforms=uniform(
                    self._seed.index_select(0, slots),
                    self.stream,
                    self._draws.index_select(0, slots),
                ),
            )
        else:
            tokens = logits.argmax(-1)
        if self.mode != "greedy":
            self._draws.index_add_(0, slots, torch.ones_like(slots))
        self.observe(slots, tokens)
        return tokens

    def _draws_for(self, host_slots: list[int]) -> bool:
        if self.mode == "auto":
            # A captured region would keep what holds for its first batch.
            assert not (self._device.type == "cuda" and torch.cuda.is_current_stream_capturing()), (
                "a captured sampler's mode is `draw` or `greedy`"
            )
            return any(self._drawing[slot] for slot in host_slots)
        return self.mode == "draw"
