"""The ring's chunks are those of the definition, whoever sends, takes and closes when."""

import random
from types import SimpleNamespace

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.options import OptionTable
from mstarc_runtime.landing import Landing
from mstarc_runtime.plan_api import DeviceStep, Policy
from mstarc_runtime.streaming.ring import Ring
from tests.runtime.test_chunks import chunks_by_definition, policies

SLOTS = 3
CPU = torch.device("cpu")


class Told:
    """Notes what a ring tells."""

    def __init__(self) -> None:
        self.woken: list[tuple[int, bool]] = []
        self.read_to = dict.fromkeys(range(SLOTS), 0)

    def reader_woken(self, stream: str, slot: int, has_chunk: bool) -> None:
        self.woken.append((slot, has_chunk))

    def room_made(self, stream: str, slot: int, read_to: int) -> None:
        assert read_to > self.read_to[slot]
        self.read_to[slot] = read_to


def make_batch(rows: int) -> StepBatch:
    step = DeviceStep(id=0, name="send", run=lambda *_: None, nodes=(), rows="one", then=0, line=1)
    return StepBatch(
        step,
        rows,
        padding_slot=SLOTS,
        device=CPU,
        options=OptionTable(slots=SLOTS, device=CPU),
    )


def value(slot: int, number: int) -> int:
    return 1000 * (slot + 1) + number


@settings(deadline=None, max_examples=80)
@given(seed=st.integers(0, 1 << 30), policy=policies())
def test_a_ring_hands_over_what_the_policy_says(seed: int, policy: Policy) -> None:
    chance = random.Random(seed)
    counts = [chance.choice([0, 1, 2, chance.randint(0, 40)]) for _ in range(SLOTS)]
    told = Told()
    capacity = policy.size + policy.context + policy.stride + chance.randint(1, 5)
    ring = Ring(
        "items",
        dtype="i64",
        item=(),
        policy=policy,
        capacity=capacity,
        slots=SLOTS,
        device=CPU,
        listener=told,
    )
    ends = [
        frozenset(chance.sample(range(40), chance.randint(0, 12)))
        if policy.kind == "until"
        else frozenset()
        for _ in range(SLOTS)
    ]
    sent = [0] * SLOTS
    closed: set[int] = set()
    waits: set[int] = set()
    taken: list[list[list[int]]] = [[] for _ in range(SLOTS)]
    drained: set[int] = set()
    while len(drained) < SLOTS:
        able = [s for s in range(SLOTS) if sent[s] < counts[s] and ring.room(s) >= 1]
        choices = ["send"] * bool(able) + ["read"]
        done = [s for s in range(SLOTS) if sent[s] == counts[s] and s not in closed]
        choices += ["close"] * bool(done)
        match chance.choice(choices):
            case "send":
                rows = chance.sample(able, chance.randint(1, len(able)))
                sends = np.array([chance.random() < 0.7 for _ in rows])
                batch = make_batch(len(rows) + 1)  # one row of padding
                slots = np.array(rows, dtype=np.int64)
                batch.bind(slots)
                items = torch.tensor([value(s, sent[s]) for s in rows] + [-1])
                marks = np.array([sent[s] in ends[s] for s in rows])
                ring.append(
                    batch,
                    items,
                    where=torch.tensor([*sends, False]),
                    ends=torch.tensor([*marks, False]),
                )
                ring.landed(slots[sends], 1, marks[sends][:, None])
                for slot in slots[sends].tolist():
                    sent[slot] += 1
            case "close":
                slot = chance.choice(done)
                closed.add(slot)
                ring.close(slot)
            case "read":
                slot = chance.choice(sorted(set(range(SLOTS)) - drained))
                if slot in waits and slot not in [woken for woken, _ in told.woken]:
                    continue
                waits.discard(slot)
                told.woken = [woken for woken in told.woken if woken[0] != slot]
                match ring.wait(slot):
                    case "ready":
                        chunk = ring.take(slot)
                        items = ring.items_of(slot, chunk)
                        taken[slot].append(items.reshape(-1).tolist())
                    case "waiting":
                        waits.add(slot)
                    case "drained" | "empty":
                        drained.add(slot)
        assert all(0 <= ring.room(s) <= capacity for s in range(SLOTS))
    for slot in range(SLOTS):
        expected = chunks_by_definition(policy, counts[slot], ends[slot])
        assert taken[slot] == [
            [value(slot, chunk.first + i) for i in range(chunk.context + chunk.fresh)]
            + [0] * chunk.padding
            for chunk in expected
        ]
        ring.release(slot)
    assert ring.snapshot() == {"items": 0, "cursors": 0}


def test_several_items_a_row_may_end_chunks_among_them() -> None:
    policy = Policy(kind="until", size=9, tail="short")
    ring = Ring(
        "items",
        dtype="i64",
        item=(),
        policy=policy,
        capacity=20,
        slots=SLOTS,
        device=CPU,
        listener=Told(),
    )
    batch = make_batch(2)
    slots = np.array([0, 2], dtype=np.int64)
    batch.bind(slots)
    ends = torch.tensor([[False, True, False, True], [False, False, False, False]])
    ring.append(batch, torch.arange(8).view(2, 4), ends=ends)
    batch.end()
    worker = SimpleNamespace(mailbox=None, plan=SimpleNamespace(steps=()))
    Landing(worker).land(batch, batch.host_flags().copy(), slots)  # type: ignore[arg-type]
    assert ring.items_of(0, ring.take(0)).tolist() == [0, 1]
    assert ring.items_of(0, ring.take(0)).tolist() == [2, 3]
    assert ring.wait(2) == "waiting"
    ring.close(2)
    assert ring.items_of(2, ring.take(2)).tolist() == [4, 5, 6, 7]
