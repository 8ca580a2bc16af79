"""What a sampler chooses, and what its choice depends on."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mstarc_runtime.layers.counter_hash import normal, uniform
from mstarc_runtime.layers.sampler import SamplerState, SamplingSettings, draw_tokens, penalise

CPU = torch.device("cpu")
VOCAB = 50


def state(**options: object) -> SamplerState:
    return SamplerState(slots=4, vocab=VOCAB, device=CPU, **options)  # type: ignore[arg-type]


def sample(sampler: SamplerState, logits: torch.Tensor, slots: list[int]) -> list[int]:
    tokens: list[int] = sampler.sample(logits, torch.tensor(slots), slots).tolist()
    return tokens


def logits(rows: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, VOCAB, generator=torch.Generator().manual_seed(seed)) * 3


def draws(settings_: SamplingSettings, count: int, row: torch.Tensor) -> list[int]:
    """About so many draws from one row, by slots with seeds of their own."""
    sampler = state(penalised=settings_.repetition_penalty != 1.0)
    slots = list(range(4))
    for slot in slots:
        sampler.admit(slot, replace(settings_, seed=settings_.seed + slot))
    rows = row.expand(len(slots), -1)
    return [token for _ in range(count // 4) for token in sample(sampler, rows, slots)]


def test_hashed_numbers_are_those_of_splitmix64() -> None:
    def mix(x: int) -> int:
        x = (x + 0x9E3779B97F4A7C15) & (2**64 - 1)
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
        return x ^ (x >> 31)

    for seed, stream, draw in ((0, 0, 0), (1, 2, 3), (2**63 - 1, 7, 10**6), (-5, 1, 2)):
        expected = (mix(mix(mix(seed % 2**64) + stream) + draw) >> 40) / 2**24
        assert uniform(torch.tensor([seed]), stream, torch.tensor([draw])).item() == expected


def test_hashed_numbers_are_spread_as_they_should_be() -> None:
    counter = torch.arange(20000)
    numbers = uniform(torch.tensor(3), 0, counter)
    assert numbers.mean().item() == pytest.approx(0.5, abs=0.01)
    assert numbers.histc(10, 0, 1).min() > 1800
    gauss = normal(torch.tensor(3), 1, counter)
    assert gauss.mean().item() == pytest.approx(0.0, abs=0.02)
    assert gauss.std().item() == pytest.approx(1.0, abs=0.02)


def test_temperature_zero_takes_the_greatest() -> None:
    rows = logits(3)
    for mode in ("auto", "greedy", "draw"):
        sampler = state(mode=mode)
        for slot in range(3):
            sampler.admit(slot, SamplingSettings(seed=slot))
        assert sample(sampler, rows, [0, 1, 2]) == rows.argmax(-1).tolist()


def test_frequencies_are_the_probabilities() -> None:
    row = torch.tensor([[2.0, 1.0, 0.0] + [-1e9] * (VOCAB - 3)])
    made = draws(SamplingSettings(temperature=0.5, seed=11), 4000, row)
    expected = (row[0, :3] / 0.5).softmax(-1).tolist()
    for token in range(3):
        assert made.count(token) / 4000 == pytest.approx(expected[token], abs=0.02)


def test_top_k_and_top_p_leave_only_the_likeliest() -> None:
    row = torch.arange(VOCAB, dtype=torch.float32)[None] * 0.1
    assert set(draws(SamplingSettings(temperature=1.0, top_k=3, seed=1), 300, row)) == {47, 48, 49}
    probabilities = row[0].softmax(-1)
    kept, mass = set(), 0.0
    for token in range(VOCAB - 1, -1, -1):
        kept.add(token)
        mass += probabilities[token].item()
        if mass >= 0.3:
            break
    assert set(draws(SamplingSettings(temperature=1.0, top_p=0.3, seed=1), 800, row)) == kept


def test_top_p_counts_what_top_k_has_left() -> None:
    row = torch.arange(VOCAB, 0, -1, dtype=torch.float32)[None] * 1e-3
    made = draws(SamplingSettings(temperature=1.0, top_k=4, top_p=0.5, seed=2), 200, row)
    assert set(made) == {0, 1}, "of four almost equal ids, the first two hold half"


def test_equal_ids_are_likely_together_and_counted_by_id() -> None:
    row = torch.zeros(1, VOCAB)
    assert set(draws(SamplingSettings(temperature=1.0, top_k=4, seed=2), 200, row)) == {0, 1, 2, 3}
    made = draws(SamplingSettings(temperature=1.0, top_k=4, top_p=0.5, seed=2), 200, row)
    assert set(made) == {0, 1, 2, 3}, "the nucleus takes ids of one key whole"


def test_a_tiny_top_p_is_the_greatest() -> None:
    rows = logits(1)
    made = draws(SamplingSettings(temperature=2.0, top_p=1e-6, seed=2), 50, rows)
    assert set(made) == {rows.argmax().item()}


def test_only_allowed_ids_are_chosen() -> None:
    rows = logits(1)
    sampler = state(allow=[3, 7, 9])
    sampler.admit(0, SamplingSettings(temperature=5.0, seed=3))
    assert {sample(sampler, rows, [0])[0] for _ in range(200)} == {3, 7, 9}
    sampler.admit(0, SamplingSettings())
    assert sample(sampler, rows, [0])[0] == max((3, 7, 9), key=lambda token: rows[0, token])


@settings(max_examples=30, deadline=None)
@given(
    first=st.integers(0, VOCAB - 2),
    length=st.integers(2, VOCAB),
    seed=st.integers(0, 1000),
    top_k=st.sampled_from([0, 3]),
)
def test_logits_of_allowed_ids_alone_give_the_same_tokens(
    first: int, length: int, seed: int, top_k: int
) -> None:
    kept = range(first, min(first + length, VOCAB))
    whole = state(allow=kept, penalised=True)
    part = state(kept=kept, penalised=True)
    rows, given_ids = logits(2, seed), torch.tensor([0, first, VOCAB - 1])
    for sampler in (whole, part):
        sampler.admit(
            0, SamplingSettings(temperature=1.0, top_k=top_k, repetition_penalty=2.0, seed=seed)
        )
        sampler.admit(1, SamplingSettings(repetition_penalty=1.5))
        sampler.observe(torch.tensor([0, 0, 0]), given_ids)
    for _ in range(8):
        assert sample(whole, rows, [0, 1]) == sample(
            part, rows[:, kept.start : kept.stop].contiguous(), [0, 1]
        )


def test_the_prompt_and_sampled_tokens_are_penalised() -> None:
    row = torch.tensor([[4.0, 3.0, 2.5] + [-9.0] * (VOCAB - 3)])
    sampler = state(penalised=True)
    sampler.admit(0, SamplingSettings(repetition_penalty=2.0))
    sampler.admit(1, SamplingSettings(repetition_penalty=2.0))
    sampler.observe(torch.tensor([0]), torch.tensor([0]))
    assert sample(sampler, row.expand(2, -1), [0, 1]) == [1, 0]
    assert sample(sampler, row.expand(2, -1), [0, 1]) == [2, 1]
    sampler.admit(0, SamplingSettings(repetition_penalty=2.0))
    assert sample(sampler, row, [0]) == [0], "a slot's next request has seen nothing"


def test_negative_logits_are_penalised_downwards() -> None:
    made = penalise(
        torch.tensor([[2.0, -2.0, 2.0]]), torch.tensor([[True, True, False]]), torch.tensor([4.0])
    )
    assert made.tolist() == [[0.5, -8.0, 2.0]]


@settings(max_examples=30, deadline=None)
@given(
    rows=st.integers(1, 6),
    seed=st.integers(0, 1000),
    temperature=st.sampled_from([0.0, 0.3, 1.0, 3.0]),
    top_k=st.sampled_from([0, 1, 5, 1000]),
    top_p=st.sampled_from([0.1, 0.8, 1.0]),
)
def test_a_row_depends_on_nobody_else(
    rows: int, seed: int, temperature: float, top_k: int, top_p: float
) -> None:
    wanted = SamplingSettings(
        temperature=temperature, top_k=top_k, top_p=top_p, seed=seed, repetition_penalty=1.3
    )
    mine = logits(1, seed)
    alone, beside = state(penalised=True), state(penalised=True)
    alone.admit(2, wanted)
    beside.admit(1, wanted)
    for slot in (0, 2, 3):
        beside.admit(slot, SamplingSettings(temperature=1.0, seed=slot))
    others = [0, 2, 3, 0, 2][: rows - 1]
    for draw in range(4):
        neighbours = logits(rows - 1, seed + draw + 1)
        batch = torch.cat([neighbours, mine])
        assert sample(beside, batch, [*others, 1])[-1] == sample(alone, mine, [2])[0]


def test_streams_seeds_and_draws_differ() -> None:
    row = torch.zeros(1, VOCAB)

    def first(stream: int, seed: int) -> list[int]:
        sampler = state(stream=stream)
        sampler.admit(0, SamplingSettings(temperature=1.0, seed=seed))
        return [sample(sampler, row, [0])[0] for _ in range(20)]

    made = [first(0, 1), first(1, 1), first(0, 2), first(0, 1)]
    assert made[0] == made[3]
    assert len({tuple(tokens) for tokens in made}) == 3
    assert len(set(made[0])) > 5


def test_no_generator_of_torch_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.random.get_rng_state()
    draws(SamplingSettings(temperature=1.0, seed=4), 5, logits(1))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_any_whole_number_is_a_seed() -> None:
    for seed in (-(2**70), -1, 0, 2**63, 2**64 - 1, 10**30):
        draws(SamplingSettings(temperature=1.0, seed=seed), 1, logits(1))


def test_a_row_of_one_possible_id_chooses_it() -> None:
    row = torch.full((1, VOCAB), float("-inf"))
    row[0, 13] = 1.0
    made = draw_tokens(
        row,
        temperature=torch.tensor([1.0]),
        top_k=torch.tensor([0]),
        top_p=torch.tensor([1.0]),
        seeds=torch.tensor([5]),
        stream=0,
        draws=torch.tensor([0]),
    )
    assert made.tolist() == [13]
