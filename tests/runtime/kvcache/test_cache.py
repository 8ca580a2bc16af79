"""Pages and contexts: whatever is written, forked and released, each context holds its own rows."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.errors import ContextFull, OutOfPages
from mstarc_runtime.kvcache.layout import CacheLayout
from mstarc_runtime.kvcache.packed import PackedRows

CONTEXTS = ("main", "side")
SLOTS = 4
BUCKET = 4


def make(
    *, pages: int = 40, page_size: int = 3, max_rows: int = 18, contexts: tuple[str, ...] = CONTEXTS
) -> KVCache:
    layout = CacheLayout(
        layers=2,
        kv_heads=1,
        head_dim=1,
        pages=pages,
        page_size=page_size,
        slots=SLOTS,
        max_rows=max_rows,
        contexts=contexts,
    )
    return KVCache(layout, dtype=torch.float32, device=torch.device("cpu"))


def write(cache: KVCache, rows: np.ndarray, values: list[float]) -> None:
    for layer in range(2):
        cache.key_rows[layer][torch.from_numpy(rows)] = torch.tensor(values).view(-1, 1, 1) + layer
        cache.value_rows[layer][torch.from_numpy(rows)] = -torch.tensor(values).view(-1, 1, 1)


def held(cache: KVCache, slot: int, context: str) -> list[float]:
    """The rows of a context, as its page table finds them in layer 1."""
    key, size = cache.key(slot, context), cache.layout.page_size
    length = int(cache.tables.lengths[key])
    index = np.arange(length)
    rows = cache.tables.table[key][index // size].astype(np.int64) * size + index % size
    keys = cache.key_rows[1][torch.from_numpy(rows)].flatten() - 1
    assert torch.equal(keys, -cache.value_rows[0][torch.from_numpy(rows)].flatten())
    values: list[float] = keys.tolist()
    return values


@dataclass
class Expected:
    rows: list[float] = field(default_factory=list)
    position: int = 0


class Contexts(RuleBasedStateMachine):
    """Random calls against plain lists."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = make()
        self.before = self.cache.snapshot()
        self.expected = {(s, c): Expected() for s in range(SLOTS) for c in CONTEXTS}
        self.next_value = 1.0
        self.batch = np.array([0])
        self.stepping = False

    def values(self, count: int) -> list[float]:
        made = [self.next_value + index for index in range(count)]
        self.next_value += count
        return made

    @rule(
        slots=st.lists(st.integers(0, SLOTS - 1), min_size=1, max_size=SLOTS, unique=True),
        context=st.sampled_from(CONTEXTS),
        keep=st.booleans(),
        span=st.sampled_from([None, 1, 5]),
        data=st.data(),
    )
    def write_many(
        self, slots: list[int], context: str, keep: bool, span: int | None, data: st.DataObject
    ) -> None:
        counts = [data.draw(st.integers(1, 7)) for _ in slots]
        if not self.is_back(slots):
            return
        before = self.cache.snapshot()
        lengths = [len(self.expected[slot, context].rows) for slot in slots]
        try:
            rows = self.cache.packed_rows(
                np.array(slots), np.array(counts), context, keep=keep, span=span
            )
        except (ContextFull, OutOfPages):
            assert self.cache.snapshot() == before
            return
        values = self.values(sum(counts))
        write(self.cache, rows.write_rows, values)
        start = 0
        for slot, count, length in zip(slots, counts, lengths, strict=True):
            expected = self.expected[slot, context]
            own = slice(start, start + count)
            steps = np.arange(count) if span is None else 0
            assert (rows.positions[own] == expected.position + steps).all()
            assert (rows.row_indices[own] == length + np.arange(count)).all()
            if keep:
                expected.rows += values[own]
                expected.position += count if span is None else span
            start += count

    @rule(slots=st.lists(st.integers(0, SLOTS - 1), min_size=1, max_size=SLOTS, unique=True))
    def choose_batch(self, slots: list[int]) -> None:
        self.batch = np.array(slots)

    @rule(context=st.sampled_from(CONTEXTS), keep=st.booleans(), times=st.integers(1, 5))
    def step(self, context: str, keep: bool, times: int) -> None:
        rows = self.cache.step_rows(BUCKET, context, keep=keep)
        if not self.is_back(self.batch.tolist()):
            return
        for _ in range(times):
            before = self.cache.snapshot()
            try:
                rows.prepare(self.batch)
            except (ContextFull, OutOfPages):
                assert self.cache.snapshot() == before
                return
            batch = self.batch.size
            values = self.values(batch)
            write(self.cache, rows.write_rows[:batch], values)
            size, dummy = self.cache.layout.page_size, self.cache.layout.dummy_page
            indptr, indices = rows.page_lists()
            for row, slot in enumerate(self.batch.tolist()):
                expected = self.expected[slot, context]
                length = len(expected.rows)
                assert rows.positions[row] == expected.position
                assert rows.kv_lengths[row] == length + 1
                assert rows.last_page_lengths[row] == length % size + 1
                assert rows.write_offsets[row] == length
                pages = self.cache.tables.table[self.cache.key(slot, context)]
                assert (indices[indptr[row] : indptr[row + 1]] == pages[: length // size + 1]).all()
                assert rows.slots[row] == slot
                if keep:
                    expected.rows.append(values[row])
                    expected.position += 1
            assert (rows.slots[batch:] == SLOTS).all()
            assert (rows.kv_lengths[batch:] == 1).all()
            assert (rows.write_rows[batch:] == dummy * size).all()
            assert (indices[indptr[batch] :] == dummy).all()

    @rule(
        slot=st.integers(0, SLOTS - 1), names=st.permutations(CONTEXTS).map(lambda names: names[:2])
    )
    def fork(self, slot: int, names: tuple[str, str]) -> None:
        source, target = names
        if not self.is_back([slot]):
            return
        self.cache.fork(slot, source, target)
        origin = self.expected[slot, source]
        self.expected[slot, target] = Expected(rows=list(origin.rows), position=origin.position)

    @rule(slot=st.integers(0, SLOTS - 1), context=st.sampled_from(CONTEXTS))
    def release(self, slot: int, context: str) -> None:
        self.cache.release(slot, context)
        self.expected[slot, context] = Expected()

    @precondition(lambda self: self.next_value > 10)
    @rule(slot=st.integers(0, SLOTS - 1))
    def release_slot(self, slot: int) -> None:
        self.cache.release_slot(slot)
        for context in CONTEXTS:
            self.expected[slot, context] = Expected()

    def is_back(self, slots: list[int]) -> bool:
        """Whether what was set aside of these slots is on pages again, or could be put there."""
        for slot in slots:
            before = self.cache.snapshot()
            try:
                if slot in self.cache.aside:
                    self.cache.bring_back(slot)
            except OutOfPages as error:
                assert error.needed > error.free
                assert self.cache.snapshot() == before
                return False
        return True

    @rule(slot=st.integers(0, SLOTS - 1))
    def set_aside(self, slot: int) -> None:
        if slot in self.cache.aside:
            return
        self.cache.set_aside(slot)
        assert slot not in self.cache.holders()

    @rule(slots=st.lists(st.integers(0, SLOTS - 1), unique=True))
    def bring_back(self, slots: list[int]) -> None:
        self.is_back(slots)

    @rule(slot=st.integers(0, SLOTS - 1), names=st.permutations(CONTEXTS))
    def travel(self, slot: int, names: list[str]) -> None:
        """A context leaves, wherever its pages are, and comes back by itself."""
        for context in names:
            if not self.cache.holds(slot, context):
                continue
            rows = self.cache.rows_of(slot, context)
            position = self.cache.position(slot, context)
            assert rows[0, 1].flatten().tolist() == [
                value + 1 for value in self.expected[slot, context].rows
            ]
            self.cache.release(slot, context)
            assert not self.cache.holds(slot, context)
            try:
                self.cache.replace(slot, context, rows, position)
            except OutOfPages:
                self.expected[slot, context] = Expected()

    @rule()
    def poison_free_pages(self) -> None:
        allocator = self.cache.tables.allocator
        free = torch.from_numpy(allocator._free[: allocator.free_count].astype(np.int64))
        for pool in (self.cache.keys, self.cache.values):
            pool.index_fill_(1, free, torch.nan)

    @invariant()
    def every_context_holds_its_rows(self) -> None:
        for (slot, context), expected in self.expected.items():
            if slot in self.cache.aside and self.cache.length(slot, context) == 0:
                rows = self.cache.holds(slot, context)
                assert rows == bool(expected.rows)
                continue
            assert held(self.cache, slot, context) == expected.rows
            assert self.cache.tables.positions[self.cache.key(slot, context)] == expected.position

    @invariant()
    def every_page_is_counted_as_often_as_it_is_held(self) -> None:
        tables = self.cache.tables
        counted = np.zeros(tables.layout.pages, dtype=np.int64)
        for key, count in enumerate(tables.page_counts.tolist()):
            np.add.at(counted, tables.table[key, :count], 1)
        assert (counted == tables.allocator._references).all()
        assert int((counted == 0).sum()) == tables.allocator.free_count

    def teardown(self) -> None:
        for slot in range(SLOTS):
            self.cache.release_slot(slot)
        assert self.cache.snapshot() == self.before


TestContexts = Contexts.TestCase
TestContexts.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


def test_out_of_pages_says_how_many_and_changes_nothing() -> None:
    cache = make(pages=3)
    cache.packed_rows(np.array([0]), np.array([7]), "main")
    before = cache.snapshot()
    assert before.free_pages == 0
    with pytest.raises(OutOfPages) as caught:
        cache.packed_rows(np.array([0, 1]), np.array([2, 4]), "main")
    assert (caught.value.needed, caught.value.free) == (2, 0)
    assert cache.snapshot() == before
    rows = cache.step_rows(BUCKET, "main")
    rows.prepare(np.array([0]))
    rows.prepare(np.array([0]))
    positions = rows.positions.copy()
    batch = np.array([0])
    with pytest.raises(OutOfPages):
        rows.prepare(batch)
    assert (rows.positions == positions).all()
    cache.release_slot(1)
    assert cache.length(0, "main") == 9


def test_a_step_can_be_repeated_after_pages_were_freed() -> None:
    cache = make(pages=2)
    cache.packed_rows(np.array([0, 1]), np.array([3, 3]), "main")
    rows, batch = cache.step_rows(BUCKET, "main"), np.array([0])
    with pytest.raises(OutOfPages):
        rows.prepare(batch)
    cache.release_slot(1)
    rows.prepare(batch)
    assert rows.positions[0] == 3


def test_a_full_context_names_its_request() -> None:
    cache = make(max_rows=6)
    cache.packed_rows(np.array([2]), np.array([5]), "side")
    rows, batch = cache.step_rows(BUCKET, "side"), np.array([2])
    rows.prepare(batch)
    with pytest.raises(ContextFull, match="context `side` of slot 2 would hold 7 rows, and 6 fit"):
        rows.prepare(batch)
    assert cache.length(2, "side") == 6


def test_a_fork_shares_pages_until_one_writes() -> None:
    cache = make()
    rows = cache.packed_rows(np.array([0]), np.array([7]), "main")
    write(cache, rows.write_rows, [float(value) for value in range(7)])
    cache.fork(0, "main", "side")
    assert (cache.snapshot().used_pages, cache.snapshot().shared_pages) == (3, 3)
    rows = cache.packed_rows(np.array([0]), np.array([1]), "side")
    write(cache, rows.write_rows, [70.0])
    assert (cache.snapshot().used_pages, cache.snapshot().shared_pages) == (4, 2)
    rows = cache.packed_rows(np.array([0]), np.array([1]), "main")
    write(cache, rows.write_rows, [71.0])
    assert cache.snapshot().used_pages == 4, "the last owner of a page needs no copy"
    assert held(cache, 0, "main") == [0, 1, 2, 3, 4, 5, 6, 71]
    assert held(cache, 0, "side") == [0, 1, 2, 3, 4, 5, 6, 70]


def test_batches_that_take_turns_do_not_disturb_each_other() -> None:
    cache = make()
    rows = cache.step_rows(BUCKET, "main")
    other = cache.step_rows(2, "main")
    first, second = np.array([0, 1]), np.array([2, 3])
    for step in range(8):
        rows.prepare(first)
        assert (rows.positions[:2] == step).all()
        other.prepare(second)
        assert (other.positions == step).all()
    other.prepare(first)
    rows.prepare(first)
    assert (rows.positions[:2] == 9).all()


@given(st.lists(st.integers(0, SLOTS - 1), min_size=1, max_size=SLOTS, unique=True))
@settings(max_examples=10, deadline=None)
def test_packed_rows_say_who_owns_them(slots: list[int]) -> None:
    counts = np.array([slot + 1 for slot in slots])
    rows: PackedRows = make().packed_rows(np.array(slots), counts, "main")
    assert rows.row_slots.tolist() == [slot for slot in slots for _ in range(slot + 1)]
    assert rows.row_indptr.tolist() == [0, *np.cumsum(counts).tolist()]
    assert (np.diff(rows.indptr) == -(-counts // 3)).all()
    assert (rows.last_page_lengths == (counts - 1) % 3 + 1).all()
