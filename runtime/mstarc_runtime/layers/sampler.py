"""Choosing a token of each row's logits, by the row's own settings and seed.

Order: allowed ids → repetition penalty → temperature → top-k → top-p, then a draw over what is
left. Temperature 0 takes the greatest logit. The draw: ids drawn one after another from what top-k
has left, by inverse CDF in the order of ids, of which the first within top-p's nucleus is taken;
where none of `CANDIDATES` is, one is drawn from the nucleus. That is a draw from the nucleus, and
on a GPU it needs no sorting (`kernels.sampling` makes the same choice). Probabilities are whole
numbers, so that their sums are exact in any order.

Uniform numbers are a hash of (seed, sampler's stream, number of the draw), so that a row's token
depends on its own logits, seed and draw only: no generator, no state shared by rows. Everything is
tensor arithmetic that a CUDA graph can capture.
"""

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

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

CANDIDATES = 8
"""Ids that are drawn at once, of which the first within the nucleus is taken."""
MOST_TRIES = 4096
"""How far apart the numbers of two draws' hashes are: more than a draw uses."""
KEYS_A_LOGIT = 1 << 19
LAST_KEY = (1 << 24) - 1
MASS_BITS = 31
"""The greatest logit has a mass of 2 ** 31; what has less than one is never drawn."""


@functools.cache
def mass_tables(device: torch.device) -> tuple[Tensor, Tensor]:
    """i64[32] and i64[128]: what a key's bits from 19 on and its bits 12 to 18 multiply a mass by,
    over 2 ** MASS_BITS. `masses_of` does the rest; the same key has the same mass everywhere."""
    unit = 1 << MASS_BITS
    upper = [round(math.exp(-bits) * unit) for bits in range(32)]
    middle = [round(math.exp(-bits / 128) * unit) for bits in range(128)]
    return torch.tensor(upper, device=device), torch.tensor(middle, device=device)


CUBIC = round((1 << 26) / 6)


def masses_of(keys: Tensor) -> Tensor:
    """i64: 2 ** 31 exp(-key / 2 ** 19) of `keys` i64. The last 12 bits' factor is its series."""
    upper, middle = mass_tables(keys.device)
    rough = upper[keys >> 19] * middle[keys >> 12 & 127] >> MASS_BITS
    last = keys & 4095
    fine = (1 << MASS_BITS) - (last << 12) + (last * last >> 8) - (last**3 * CUBIC >> 52)
    return rough * fine >> MASS_BITS


def penalise(logits: Tensor, seen: Tensor, penalty: Tensor) -> Tensor:
    """Divides positive and multiplies negative logits of `seen` bool[B, V] by `penalty` f32[B]."""
    factor = penalty[:, None]
    return torch.where(seen, torch.where(logits > 0, logits / factor, logits * factor), logits)


def draw_tokens(
    logits: Tensor,
    *,
    temperature: Tensor,
    top_k: Tensor,
    top_p: Tensor,
    seeds: Tensor,
    stream: int,
    draws: Tensor,
) -> Tensor:
    """i64[B]: a token of each row of `logits` f32[B, V]; the greatest where temperature is 0.

    All settings are [B]; `seeds` and `draws` i64[B]. An id's key is how far its logit lies below
    the greatest, in steps of 2 ** -19; ids of equal keys are in the nucleus of `top_p` together,
    while `top_k` counts them by id.
    """
    cold = temperature <= 0
    scaled = logits / torch.where(cold, 1.0, temperature)[:, None]
    below = scaled.amax(-1, keepdim=True) - scaled
    keys = (below * KEYS_A_LOGIT).clamp(max=LAST_KEY).to(torch.int64)
    masses = masses_of(keys)
    ordered, ids = torch.sort(keys, dim=-1, stable=True)
    ranks = torch.arange(keys.shape[-1], device=keys.device)
    first = torch.where(top_k <= 0, keys.shape[-1], top_k)[:, None]
    kept = torch.where(ranks < first, masses.gather(1, ids), 0)
    masses = torch.zeros_like(masses).scatter_(1, ids, kept)
    reached = kept.cumsum(-1)
    total = reached[:, -1:]
    wanted = (total.double() * top_p.double()[:, None]).to(torch.int64).clamp(min=1)
    last_key = ordered.gather(1, (reached < wanted).sum(-1, keepdim=True))
    ends = masses.cumsum(-1)
    inner = torch.where(keys <= last_key, masses, 0).cumsum(-1)
    token = _drawn(inner, uniform(seeds, stream, draws * MOST_TRIES + CANDIDATES))
    for number in reversed(range(CANDIDATES)):
        candidate = _drawn(ends, uniform(seeds, stream, draws * MOST_TRIES + number))
        token = torch.where(keys.gather(1, candidate) <= last_key, candidate, token)
    return torch.where(cold, logits.argmax(-1), token[:, 0])


def _drawn(ends: Tensor, uniforms: Tensor) -> Tensor:
    """i64[B, 1]: the id in which uniform numbers f32[B] fall, of running sums i64[B, V]."""
    total = ends[:, -1]
    target = torch.minimum((total.double() * uniforms.double()).to(torch.int64), total - 1)
    return torch.searchsorted(ends, target[:, None], right=True)


class SamplerState:
    """One sampler of a node: the settings, counters and seen ids of every slot, on the device.

    The last row of everything belongs to padding. `mode`: `greedy` never draws, `draw` always
    computes both (what a captured region needs), `auto` draws only if a request of the batch asks
    for it, which gives the same tokens. `stream` keeps the draws of one request's samplers apart.
    `penalised` says whether any request may ask for a repetition penalty; seen ids are kept then.
    `ranked` says whether any may ask for a top_k. Logits are of all ids, of which those in
    `allow` are drawn, or of the `kept` ones alone, which gives the same tokens.
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
        ranked: bool = True,
        allow: Iterable[int] | None = None,
        kept: range | None = None,
    ) -> None:
        self.vocab = vocab if kept is None else len(kept)
        self._kept = kept
        self.stream = stream
        self.mode: SamplerMode = mode
        self._device = device
        # Rows: temperature, top_p, repetition penalty.
        self._settings = torch.ones(3, slots + 1, device=device)
        self._temperature, self._top_p, self._penalty = self._settings
        self._temperature.zero_()
        self._top_k = torch.zeros(slots + 1, dtype=torch.int64, device=device)
        self._seed = torch.zeros(slots + 1, dtype=torch.int64, device=device)
        self._draws = torch.zeros(slots + 1, dtype=torch.int64, device=device)
        self._drawing = [False] * (slots + 1)
        # What the rows above hold of each slot.
        self._held = [GREEDY] * (slots + 1)
        self._by_kernels = device.type == "cuda" and mode != "greedy"
        self._ranked = ranked
        self._kernels: dict[int, Any] = {}
        self._seen = (
            torch.zeros(slots + 1, self.vocab, dtype=torch.bool, device=device)
            if penalised
            else None
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
        before, self._held[slot] = self._held[slot], settings
        # Filled in: what is assigned is copied, and waits for all that the device has to do. What
        # the request before has left is not written again.
        if settings.temperature != before.temperature:
            self._temperature[slot].fill_(settings.temperature)
        if settings.top_p != before.top_p:
            self._top_p[slot].fill_(settings.top_p)
        if settings.repetition_penalty != before.repetition_penalty:
            self._penalty[slot].fill_(settings.repetition_penalty)
        if settings.top_k != before.top_k:
            self._top_k[slot].fill_(settings.top_k)
        if settings.seed != before.seed:
            # The low 64 bits, so that every whole number is a seed.
            self._seed[slot].fill_((settings.seed + (1 << 63)) % (1 << 64) - (1 << 63))
        if self.mode != "greedy":
            self._draws[slot].fill_(0)
        if self._seen is not None:
            self._seen[slot].fill_(False)

    def state(self, slot: int) -> tuple[int, Tensor | None] | None:
        """How many draws a slot has made, and bool[V] of the ids it has seen; None if neither."""
        draws = int(self._draws[slot])
        seen = None if self._seen is None else self._seen[slot].clone()
        return None if not draws and (seen is None or not seen.any()) else (draws, seen)

    def restore(self, slot: int, draws: int, seen: Tensor | None) -> None:
        """Goes on where `state` was taken, or from the beginning. Settings stay."""
        self._draws[slot].fill_(draws)
        if self._seen is not None:
            self._seen[slot] = False if seen is None else seen.to(self._device)

    def observe(self, slots: Tensor, ids: Tensor) -> None:
        """Marks `ids` i64[R] as seen by the requests in `slots` i64[R]."""
        if self._kept is not None:
            # Others are never drawn, so that it does not matter who has seen them.
            ids = ids - self._kept.start
            slots = torch.where((ids >= 0) & (ids < self.vocab), slots, len(self._drawing) - 1)
            ids = ids.clamp(0, self.vocab - 1)
        self._mark(slots, ids)

    def _mark(self, slots: Tensor, numbers: Tensor) -> None:
        if self._seen is not None:
            self._seen.view(-1).index_fill_(0, slots * self.vocab + numbers, True)

    def sample(self, logits: Tensor, slots: Tensor, host_slots: list[int]) -> Tensor:
        """i64[B] of `logits` [B, V], for `slots` i64[B] (the same as `host_slots`).

        What is in `logits` afterwards is nobody's.
        """
        tokens = self._drawn(logits.float(), slots, host_slots)
        return tokens if self._kept is None else tokens + self._kept.start

    def _drawn(self, logits: Tensor, slots: Tensor, host_slots: list[int]) -> Tensor:
        if self._forbidden is not None:
            logits = logits.masked_fill(self._forbidden, float("-inf"))
        if self._by_kernels:
            return self._draw_by_kernels(logits, slots)
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
                seeds=self._seed.index_select(0, slots),
                stream=self.stream,
                draws=self._draws.index_select(0, slots),
            )
        else:
            tokens = logits.argmax(-1)
        if self.mode != "greedy":
            self._draws.index_add_(0, slots, torch.ones_like(slots))
        self._mark(slots, tokens)
        return tokens

    def _draw_by_kernels(self, logits: Tensor, slots: Tensor) -> Tensor:
        # Here, because the kernels' compiler comes with torch for GPUs only.
        from mstarc_runtime.kernels.ranking import Ranking
        from mstarc_runtime.kernels.sampling import Draw
        from mstarc_runtime.kernels.small_draw import LARGEST, SmallDraw

        batch = logits.shape[0]
        is_small = self.vocab <= LARGEST
        made = self._kernels.get(batch)
        if made is None:
            draw = (SmallDraw if is_small else Draw)(
                batch=batch,
                vocab=self.vocab,
                count=self._settings.shape[1],
                stream=self.stream,
                chained=True,
                device=self._device,
            )
            is_ranked = self._ranked and not is_small
            ranking = Ranking(batch=batch, chained=True, device=self._device) if is_ranked else None
            made = self._kernels[batch] = draw, ranking
        draw, ranking = made
        tokens = torch.empty(batch, dtype=torch.int64, device=self._device)
        seen = None if self._seen is None else self._seen.view(torch.int8)
        given: dict[str, Any] = {"settings": self._settings, "slots": slots, "seen": seen}
        if is_small:
            given["ranks"] = self._top_k if self._ranked else None
        elif ranking is not None:
            ranking(logits, ranks=self._top_k, **given)
        draw(logits, seeds=self._seed, draws=self._draws, tokens=tokens, **given)
        return tokens

    def _draws_for(self, host_slots: list[int]) -> bool:
        if self.mode == "auto":
            # A captured region would keep what holds for its first batch.
            assert not (self._device.type == "cuda" and torch.cuda.is_current_stream_capturing()), (
                "a captured sampler's mode is `draw` or `greedy`"
            )
            return any(self._drawing[slot] for slot in host_slots)
        return self.mode == "draw"
