"""What is done for many requests of a stream at once is what would be done for each."""

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from mstarc_runtime.courier import RankCourier
from mstarc_runtime.frames import tensor_frame
from mstarc_runtime.messages import Closed, Items, Marked, Message
from mstarc_runtime.plan_api import Policy
from mstarc_runtime.streaming.ring import Ring
from mstarc_runtime.transport.mailbox import Parcel

SLOTS = 4
SINGLE = Policy(kind="fixed", size=1)


class Told:
    """Notes what a ring tells: who was woken, and how far it was read."""

    def __init__(self) -> None:
        self.woken: list[tuple[int, bool]] = []
        self.read_to: dict[int, int] = {}

    def reader_woken(self, stream: str, slot: int, has_chunk: bool) -> None:
        self.woken.append((slot, has_chunk))

    def room_made(self, stream: str, slot: int, read_to: int) -> None:
        self.read_to[slot] = read_to


class Here:
    """A ring and its courier; `is_at_once` says whether whole messages may be taken in."""

    def __init__(self, *, is_at_once: bool) -> None:
        self.told = Told()
        self.is_at_once = is_at_once
        self.taken_whole = 0
        self.ring = Ring(
            "words",
            dtype="i64",
            item=(),
            policy=SINGLE,
            capacity=64,
            slots=SLOTS,
            device=torch.device("cpu"),
            listener=self.told,
        )
        live = {s: SimpleNamespace(request=s, is_ending=False, marks={}) for s in range(SLOTS)}
        parts = SimpleNamespace(rings={"words": self.ring})
        worker: Any = SimpleNamespace(live=live, parts=parts)
        self.courier = RankCourier(worker)

    def get(self, message: Message, values: torch.Tensor | None = None) -> None:
        frames = () if values is None else (tensor_frame(values),)
        if self.is_at_once and isinstance(message, Items) and self.courier.take_in(message, frames):
            self.taken_whole += 1
            return
        for single in self.courier.split(Parcel(message, frames)):
            self.courier.deliver(single, self.courier.addressee(single.message)[0])

    def state(self) -> Any:
        slots = np.arange(SLOTS)
        left = self.ring.pulls_left(slots).tolist()
        first, sent = (array.tolist() for array in self.ring.to_pull(slots))
        room = [self.ring.room(slot) for slot in range(SLOTS)]
        told = sorted(self.told.woken), self.told.read_to
        return left, first, sent, room, self.ring.storage.tolist(), told


def items(
    slots: list[int], firsts: list[int], counts: list[int], marks: list[int] | None = None
) -> tuple[Items, torch.Tensor]:
    values = [
        100 * s + f + i for s, f, n in zip(slots, firsts, counts, strict=True) for i in range(n)
    ]
    message = Items(
        stream="words",
        slots=tuple(slots),
        requests=tuple(slots),
        firsts=tuple(firsts),
        counts=tuple(counts),
        ends=((),) * len(slots),
        marks=tuple(marks or [0] * len(slots)),
        dtype="i64",
        dims=(),
    )
    return message, torch.tensor(values)


def test_messages_and_pulls_of_many_are_those_of_each() -> None:
    """In any order: items of some slots, others that are to come before them, marks, ends."""
    for seed in range(30):
        chance = random.Random(seed)
        here = [Here(is_at_once=is_it) for is_it in (True, False)]
        sent, marked = [0] * SLOTS, [0] * SLOTS
        closed: set[int] = set()
        late: list[tuple[Message, torch.Tensor | None]] = []
        for _ in range(40):
            able = [slot for slot in range(SLOTS) if slot not in closed and sent[slot] < 50]
            match chance.choice(["send", "send", "send", "pull", "pull", "mark", "close", "late"]):
                case "send" if able:
                    slots = sorted(chance.sample(able, chance.randint(1, len(able))))
                    counts = [chance.choice([1, 1, 1, 3]) for _ in slots]
                    firsts, marks = [sent[s] for s in slots], [marked[s] for s in slots]
                    for slot, count in zip(slots, counts, strict=True):
                        sent[slot] += count
                    late.append(items(slots, firsts, counts, marks))
                    if chance.random() < 0.8:
                        _deliver(here, late)
                case "mark" if able and chance.random() < 0.3:
                    slot = chance.choice(able)
                    late.append((Marked("words", slot, slot, sent[slot], marked[slot], "m"), None))
                    marked[slot] += 1
                case "close" if able and chance.random() < 0.2:
                    slot = chance.choice(able)
                    closed.add(slot)
                    late.append((Closed("words", slot, slot, sent[slot]), None))
                case "late":
                    chance.shuffle(late)  # as if they came from two ranks
                    _deliver(here, late)
                case "pull":
                    slots = sorted(chance.sample(range(SLOTS), chance.randint(1, SLOTS)))
                    passes = np.array([chance.choice([0, 1, 1, 2]) for _ in slots])
                    waits = [[one.ring.wait_item(slot) for slot in slots] for one in here]
                    assert waits[0] == waits[1]
                    here[0].ring.pulled(np.array(slots), passes)
                    for slot, count in zip(slots, passes.tolist(), strict=True):
                        for _ in range(count):
                            here[1].ring.pull(slot)
                        if not count:
                            here[1].ring.pulled(np.array([slot]), np.array([0]))
            assert here[0].state() == here[1].state(), seed
        _deliver(here, late)
        assert here[0].state() == here[1].state(), seed
        assert here[0].state()[2] == sent
        assert here[0].taken_whole
        for one in here:
            for slot in range(SLOTS):
                one.ring.release(slot)
                one.courier.forget(slot)
            assert one.ring.snapshot() == {"items": 0, "cursors": 0}
            assert not one.courier.held


def _deliver(here: list[Here], late: list[tuple[Message, torch.Tensor | None]]) -> None:
    for message, values in late:
        for one in here:
            one.get(message, values)
    late.clear()
