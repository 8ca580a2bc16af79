"""Prompts in pieces: the same answers, and nobody waits for longer than a piece takes."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from mstarc_runtime.layers.sampler import SamplerState
from mstarc_runtime.models.llama import Decoder
from mstarc_schedule.batching import BatchPolicy, behind_whole, piece_of
from tests.runtime.rig import Rig
from tests.runtime.test_preemption import Narrow, Roomy
from tests.runtime.test_ranks import Left, check_answer, make_rig


def policy(budget: int, *, deterministic: bool = False) -> BatchPolicy:
    return BatchPolicy(deterministic=deterministic, tile_rows=3, token_budget=budget)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[int]]]:
    """The calls of the decoder: op, and the tokens that it was given."""
    calls: list[tuple[str, list[int]]] = []
    for op in ("prefill", "step"):
        method = getattr(Decoder, op)

        def noted(self: Decoder, ctx: Any, ids: Tensor, op: str = op, method: Any = method) -> Any:
            calls.append((op, ids.tolist()))
            return method(self, ctx, ids)

        monkeypatch.setattr(Decoder, op, noted)
    return calls


def answers(rig: Rig, lengths: list[int], passes: int) -> list[Any]:
    made = [rig.submit(passes=passes, walks=0, length=length)[1] for length in lengths]
    rig.run()
    for one in made:
        check_answer(one, passes, 0)
    rig.check_clean()
    return [one.values for one in made]


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("left", [Left, Narrow])
def test_a_prompt_in_pieces_is_answered_as_a_whole_one(
    deterministic: bool, left: type[Left]
) -> None:
    lengths = [30, 3, 4, 17, 5, 9]
    whole = answers(make_rig(left=Roomy), lengths, 9)
    chosen = policy(4, deterministic=deterministic)
    assert answers(make_rig(left=left, policy=chosen), lengths, 9) == whole


@settings(deadline=None, max_examples=8)
@example(
    slots=5,
    budget=2,
    asked=[(22, 2, 0), (13, 38, 0), (3, 6, 10), (4, 16, 10), (3, 37, 0), (22, 21, 10)],
)
@given(
    slots=st.integers(3, 6),
    budget=st.sampled_from([2, 4, 8]),
    asked=st.lists(
        st.tuples(st.integers(2, 26), st.integers(1, 25), st.sampled_from([0, 3, 10])),
        min_size=3,
        max_size=8,
    ),
)
def test_pieces_and_steps_that_take_pages_from_each_other_come_to_an_end(
    slots: int, budget: int, asked: list[tuple[int, int, int]]
) -> None:
    rig = make_rig(slots=slots, left=Narrow, policy=policy(budget))
    for length, passes, turns in asked:
        rig.submit(passes=passes, walks=0, length=length)
        for _ in range(turns):
            rig.turn()
    rig.run()
    rig.check_clean()


def test_pieces_are_cut_by_the_prompt_alone(seen: list[tuple[str, list[int]]]) -> None:
    rig = make_rig(policy=policy(8), left=Roomy)
    answers(rig, [20, 6, 20], 3)
    pieces = [len(ids) for op, ids in seen if op == "prefill"]
    assert sorted(pieces) == [4, 4, 6, 8, 8, 8, 8]


def test_others_decode_between_two_pieces(seen: list[tuple[str, list[int]]]) -> None:
    rig = make_rig(policy=policy(4), left=Roomy)
    _, first = rig.submit(passes=40, walks=0, length=3)
    while not first.values:
        rig.turn()
    seen.clear()
    rig.submit(passes=2, walks=0, length=40)
    rig.run()
    ops = [op for op, _ in seen]
    begins, ends = ops.index("prefill"), len(ops) - ops[::-1].index("prefill")
    between = ops[begins:ends]
    assert between.count("prefill") == 10
    assert between[1::2] == ["step"] * 9, "a step for each piece"


def test_a_short_prompt_is_not_held_up_by_a_long_one(seen: list[tuple[str, list[int]]]) -> None:
    rig = make_rig(policy=policy(4), left=Roomy)
    rig.submit(passes=1, walks=0, length=40)
    while not seen:
        rig.turn()
    rig.submit(passes=1, walks=0, length=3)
    rig.run()
    assert [len(ids) for op, ids in seen if op == "prefill"].index(3) <= 3


def test_a_request_that_is_cancelled_between_two_pieces_leaves_nothing() -> None:
    for turns in range(1, 12):
        rig = make_rig(policy=policy(4), left=Narrow)
        number, made = rig.submit(passes=5, walks=0, length=40)
        _, other = rig.submit(passes=5, walks=0, length=11)
        for _ in range(turns):
            rig.turn()
        rig.conductor.cancel(number)
        rig.run()
        assert made.is_over
        check_answer(other, 5, 0)
        rig.check_clean()


def test_a_piece_that_fails_ends_its_request_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    prefill = Decoder.prefill

    def raising(self: Decoder, ctx: Any, ids: Tensor) -> Tensor:
        if 17 in ids.tolist():
            raise ValueError("a token that is none")
        return prefill(self, ctx, ids)

    monkeypatch.setattr(Decoder, "prefill", raising)
    rig = make_rig(policy=policy(4), left=Roomy)
    made = [rig.submit(passes=5, walks=0, length=length)[1] for length in (8, 30, 11)]
    rig.run()
    assert made[1].failure is not None
    assert "speak.start" in made[1].failure.message
    check_answer(made[0], 5, 0)
    check_answer(made[2], 5, 0)
    rig.check_clean()


def test_a_piece_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sampler's next number is that of a prompt that is read at once."""
    draws: list[list[int]] = []
    sample = SamplerState.sample

    def noted(self: SamplerState, logits: Tensor, slots: Tensor, host: list[int]) -> Tensor:
        draws.append(host)
        return sample(self, logits, slots, host)

    monkeypatch.setattr(SamplerState, "sample", noted)
    rig = make_rig(policy=policy(4), left=Roomy)
    rig.submit(passes=1, walks=0, length=19)
    rig.run()
    assert len(draws) == 2, "behind the prompt, and behind the first token"


@given(
    lefts=st.lists(st.integers(1, 50), min_size=1, max_size=8),
    budget=st.integers(1, 20),
)
def test_pieces_cover_a_prompt_and_a_turn_is_bounded(lefts: list[int], budget: int) -> None:
    chosen = policy(budget)
    for left in lefts:
        rows = piece_of(chosen, left)
        assert 1 <= rows <= budget
        assert rows in (left, budget)
    order = behind_whole(chosen, lefts)
    assert sorted(order) == list(range(len(lefts)))
    ends = [lefts[index] <= budget for index in order]
    assert ends == sorted(ends, reverse=True)
