"""Prompts that begin alike share pages: nobody writes to them, and no answer changes."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from torch import Tensor

from mstarc_runtime.kvcache.errors import OutOfPages
from mstarc_runtime.kvcache.pages import PageAllocator
from mstarc_runtime.kvcache.prefixes import PrefixIndex, Unit, digests_of
from mstarc_runtime.models.llama import Decoder
from mstarc_runtime.plan_api import Sampler
from mstarc_schedule.batching import BatchPolicy
from tests.runtime.rig import Collected, Rig
from tests.runtime.test_ranks import Host, Left, check_answer, make_rig

FREE = BatchPolicy(deterministic=False)
PIECES = BatchPolicy(deterministic=True, tile_rows=3, token_budget=8)

# By what a request gives as its length: a few stems of 12 tokens, with ends of their own.
STEMS = [list(range(10 * stem, 10 * stem + 12)) for stem in range(3)]


def prompt_of(number: int) -> list[int]:
    stem, end = divmod(number, 20)
    return (STEMS[stem] + [40 + end % 7] * (end // 2))[: 4 + end]


class Small(Left):
    """14 pages of 4 rows: a little more than the longest request takes."""

    pages = 14


class Penalised(Left):
    samplers = (Sampler(temperature=0.7, repetition_penalty=1.7),)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each call of the prompt's op has."""
    monkeypatch.setattr(Host, "prompt", prompt)
    rows: list[int] = []
    prefill = Decoder.prefill

    def noted(self: Decoder, ctx: Any, ids: Tensor) -> Tensor:
        rows.append(ids.shape[0])
        return prefill(self, ctx, ids)

    monkeypatch.setattr(Decoder, "prefill", noted)
    return rows


def prompt(self: Host, state: list[int], length: int) -> Tensor:
    state.append(length)
    return torch.tensor(prompt_of(length))


def ask(rig: Rig, numbers: Sequence[int], passes: int = 9, seed: int = 0) -> list[Collected]:
    """Requests one after another."""
    made = []
    for number in numbers:
        made.append(rig.submit(passes=passes, walks=0, length=number, seed=seed)[1])
        rig.run()
    return made


@pytest.mark.parametrize(("policy", "whole"), [(FREE, 4), (PIECES, 8)], ids=["pages", "pieces"])
def test_a_request_reads_what_no_other_has_read(
    read: list[int], policy: BatchPolicy, whole: int
) -> None:
    rig = make_rig(policy=policy, is_shared=True)
    first, again, other = ask(rig, [14, 14, 34])
    total = len(prompt_of(14))
    assert total == 18
    begin = read[: 1 if policy is FREE else 3]
    assert sum(begin) == total
    left = total - (total - 1) // whole * whole
    assert read[len(begin)] == left, "all but the last unit, in which the answer begins"
    assert sum(read[len(begin) + 1 :]) == total, "another stem is read"
    assert first.values == again.values != other.values
    counts = rig.workers[0].stepper.prompts.counts()["lm"]
    assert (counts.asked_rows, counts.found_rows) == (3 * total, total - left)
    rig.check_clean()


@pytest.mark.parametrize("policy", [FREE, PIECES], ids=["pages", "pieces"])
@pytest.mark.parametrize("left", [Left, Penalised])
def test_answers_are_those_without_sharing(
    monkeypatch: pytest.MonkeyPatch, policy: BatchPolicy, left: type[Left]
) -> None:
    monkeypatch.setattr(Host, "prompt", prompt)
    numbers = [14, 9, 14, 34, 18, 19, 14, 33]
    alone = [one.values for one in ask(make_rig(left=left, policy=policy), numbers, seed=5)]
    rig = make_rig(left=left, policy=policy, is_shared=True)
    assert [one.values for one in ask(rig, numbers, seed=5)] == alone
    assert rig.workers[0].stepper.prompts.counts()["lm"].found_rows > 0
    rig.check_clean()


def test_a_whole_prompt_that_is_known_still_has_its_last_row_read(read: list[int]) -> None:
    rig = make_rig(is_shared=True)
    first, again = ask(rig, [8, 8])
    assert len(prompt_of(8)) == 12
    assert read == [12, 4]
    assert first.values == again.values


def test_pages_outlive_their_request_until_others_need_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Host, "prompt", prompt)
    rig = make_rig(left=Small, is_shared=True)
    worker = rig.workers[0]
    allocator = worker.parts.kv["lm"].cache.tables.allocator
    ask(rig, [14])
    assert allocator.kept_count == 4
    rig.check_clean()
    for one in ask(rig, [34, 54, 14], passes=35):
        check_answer(one, 35, 0)
    counts = worker.stepper.prompts.counts()["lm"]
    assert counts.given_up > 0
    assert worker.preempter.moves.set_aside == 0, "what is not used goes before anyone's pages do"
    worker.stepper.prompts.give_up()
    assert allocator.free_count == Small.pages
    rig.check_clean()


@cache
def alone(number: int, passes: int) -> dict[str, list[Any]]:
    rig = make_rig()
    (made,) = ask(rig, [number], passes=passes)
    return made.values


@settings(deadline=None, max_examples=10)
@given(
    asked=st.lists(
        st.tuples(st.integers(0, 59), st.integers(1, 20), st.integers(0, 60), st.booleans()),
        min_size=2,
        max_size=9,
    ),
    policy=st.sampled_from([FREE, BatchPolicy(deterministic=False, token_budget=8)]),
)
def test_nobody_writes_to_what_others_read(
    asked: list[tuple[int, int, int, bool]], policy: BatchPolicy
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Host, "prompt", prompt)
        rig = make_rig(left=Small, is_shared=True, policy=policy, slots=5)
        cache_ = rig.workers[0].parts.kv["lm"].cache
        as_kept: dict[bytes, tuple[Unit, Tensor]] = {}
        keep = PrefixIndex.keep

        def noted(self: PrefixIndex, digests: Sequence[bytes], unit: Unit) -> None:
            keep(self, digests, unit)
            unit = self._units[digests[-1]]
            as_kept[digests[-1]] = unit, cache_.keys[:, unit.pages].clone()

        patch.setattr(PrefixIndex, "keep", noted)
        begun = []
        for number, passes, turns, _ in asked:
            begun.append(rig.submit(passes=passes, walks=0, length=number))
            for _ in range(turns // 2):
                rig.turn()
        for (request, made), (_, _, turns, is_cancelled) in zip(begun, asked, strict=True):
            for _ in range(turns // 2):
                rig.turn()
            if is_cancelled and not made.is_over:
                rig.conductor.cancel(request)
        rig.run()
        for (_, made), (number, passes, _, _) in zip(begun, asked, strict=True):
            if made.events[-1] != "cancelled":
                assert made.failure is None
                assert made.values == alone(number, passes)
        prompts = rig.workers[0].stepper.prompts
        index = prompts._sharing["lm"].index if prompts._sharing else None
        for digest, unit in (index._units if index else {}).items():
            known, rows = as_kept[digest]
            assert known is unit
            assert torch.equal(cache_.keys[:, unit.pages], rows)
        rig.check_clean()
        prompts.give_up()
        assert cache_.tables.allocator.free_count == Small.pages


class Index(RuleBasedStateMachine):
    """Contexts take, adopt and release pages while the index keeps and gives up."""

    PAGES = 12

    def __init__(self) -> None:
        super().__init__()
        self.allocator = PageAllocator(self.PAGES)
        self.index = PrefixIndex(self.allocator)
        # Each context: the digests of its prompt, and its pages.
        self.contexts: list[tuple[list[bytes], list[int]]] = []

    @rule(stem=st.integers(0, 2), length=st.integers(1, 5))
    def begin(self, stem: int, length: int) -> None:
        digests = [bytes([stem, number]) for number in range(length)]
        found = self.index.find(digests)
        pages = [int(page) for unit in found for page in unit.pages]
        assert len(found) == len(pages) <= length
        self.allocator.retain(np.array(pages, dtype=np.int32))
        try:
            own = self.allocator.allocate(length - len(pages))
        except OutOfPages:
            assert self.allocator.kept_count == 0, "what nobody uses is given up first"
            self.allocator.release(np.array(pages, dtype=np.int32))
            return
        assert not set(own.tolist()) & {page for _, held in self.contexts for page in held}
        self.contexts.append((digests, pages + own.tolist()))

    @precondition(lambda self: self.contexts)
    @rule(data=st.data())
    def keep(self, data: st.DataObject) -> None:
        digests, pages = data.draw(st.sampled_from(self.contexts))
        for number, page in enumerate(pages):
            unit = Unit(pages=np.array([page], dtype=np.int32), seen=())
            if digests[number] in self.index._units or not self.allocator._kept[page]:
                self.index.keep(digests[: number + 1], unit)

    @precondition(lambda self: self.contexts)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(0, len(self.contexts) - 1))
        _, pages = self.contexts.pop(number)
        self.allocator.release(np.array(pages, dtype=np.int32))

    @rule()
    def give_up(self) -> None:
        self.index.clear()
        assert self.allocator.kept_count == 0

    @invariant()
    def every_page_is_counted(self) -> None:
        counted = np.zeros(self.PAGES, dtype=np.int64)
        for _, pages in self.contexts:
            counted[pages] += 1
        held = counted > 0
        assert self.allocator.held_count == int(held.sum())
        for unit in self.index._units.values():
            counted[unit.pages] += 1
        assert (counted == self.allocator._references).all()
        assert self.allocator.free_count == int((counted == 0).sum())

    @invariant()
    def no_unit_is_left_that_is_not_found(self) -> None:
        for stem, number in self.index._units:
            assert all(bytes([stem, before]) in self.index._units for before in range(number))

    def teardown(self) -> None:
        for _, pages in self.contexts:
            self.allocator.release(np.array(pages, dtype=np.int32))
        self.index.clear()
        assert self.allocator.free_count == self.PAGES


TestIndex = Index.TestCase
TestIndex.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


def test_digests_are_of_all_up_to_a_unit() -> None:
    one = np.arange(10)
    other = one.copy()
    other[5] = 99
    assert len(digests_of("0 prefill", [one], 3)) == 3
    assert digests_of("0 prefill", [one], 3)[:1] == digests_of("0 prefill", [other], 3)[:1]
    assert digests_of("0 prefill", [one], 3)[1] != digests_of("0 prefill", [other], 3)[1]
    assert digests_of("0 prefill", [one], 3)[2] != digests_of("0 prefill", [other], 3)[2]
    assert digests_of("0 prefill", [one], 3) != digests_of("1 prefill", [one], 3)
    places = np.zeros((10, 3), dtype=np.int64)
    assert digests_of("0 prefill", [one, places], 3) != digests_of(
        "0 prefill", [one, places + 1], 3
    )
