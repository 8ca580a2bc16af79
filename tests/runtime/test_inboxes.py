"""What GPUs of a group tell one another by their inboxes: the protocol, and how it is agreed on."""

import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mstarc_runtime.transport.device_memory import DeviceMemoryError
from mstarc_runtime.transport.inboxes import CHANNELS, NUMBERS, Inboxes, agree, inbox_words

CPU = torch.device("cpu")


class Overwritten(AssertionError):
    """A number is gone before its reader has seen it."""


@dataclass
class Modelled:
    """`ranks` ranks that run the same kernels, `calls` blocks each, one access at a time.

    As `kernels.exchange` has it, with `places` in turn and three numbers a channel.
    """

    ranks: int
    calls: list[int]
    places: int = 2
    # Of a rank's inbox, (place, from, channel, number) → (epoch, value).
    inboxes: dict[int, dict[tuple[int, int, int, int], tuple[int, int]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    epochs: dict[tuple[int, int], int] = field(default_factory=lambda: defaultdict(int))
    seen: set[tuple[int, int, int, int, int]] = field(default_factory=set)
    sums: dict[int, list[tuple[int, ...]]] = field(default_factory=lambda: defaultdict(list))
    numbers: int = 3

    def block(self, rank: int, call: int, channel: int) -> Iterator[bool]:
        """Yields behind each access whether it got on."""
        epoch = self.epochs[rank, channel] + 1
        own = [1000 * call + 100 * rank + 10 * channel + n for n in range(self.numbers)]
        for peer in range(self.ranks):
            for number in range(self.numbers):
                if peer != rank:
                    self._post(peer, rank, channel, number, epoch, own[number])
                    yield True
        totals = []
        for number in range(self.numbers):
            total = own[number]
            for peer in range(self.ranks):
                if peer == rank:
                    continue
                at = (epoch % self.places, peer, channel, number)
                while self.inboxes[rank].get(at, (0, 0))[0] != epoch:
                    yield False
                total += self.inboxes[rank][at][1]
                self.seen.add((rank, peer, channel, number, epoch))
                yield True
            totals.append(total)
        self.epochs[rank, channel] = epoch
        self.sums[rank].append((call, channel, *totals))

    def _post(
        self, peer: int, rank: int, channel: int, number: int, epoch: int, value: int
    ) -> None:
        at = (epoch % self.places, rank, channel, number)
        stood, _ = self.inboxes[peer].get(at, (0, 0))
        if stood and (peer, rank, channel, number, stood) not in self.seen:
            raise Overwritten(f"epoch {stood} of {at} by {epoch}")
        assert stood in (0, epoch - self.places), "all of a place is of one epoch"
        self.inboxes[peer][at] = (epoch, value)

    def run(self, chance: Random) -> None:
        """All kernels of all ranks, in an order by chance. Fails where all wait for ever."""
        call = dict.fromkeys(range(self.ranks), -1)
        blocks: dict[int, list[Iterator[bool]]] = {rank: [] for rank in call}
        waited = 0
        while any(call[rank] < len(self.calls) for rank in call):
            rank = chance.choice([r for r in call if call[r] < len(self.calls)])
            if not blocks[rank]:
                # A queue's next kernel begins when the one before has ended.
                call[rank] += 1
                if call[rank] < len(self.calls):
                    count = self.calls[call[rank]]
                    blocks[rank] = [self.block(rank, call[rank], c) for c in range(count)]
                continue
            # A rank runs for a while, so that some are far ahead of others.
            for _ in range(chance.choice([1, 1, 30])):
                one = chance.choice(blocks[rank])
                got_on = next(one, None)
                waited = waited + 1 if got_on is False else 0
                assert waited < 20_000, "all of them wait"
                if got_on is None:
                    blocks[rank].remove(one)
                    if not blocks[rank]:
                        break


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 4), st.lists(st.integers(1, 3), min_size=1, max_size=6), st.integers(0))
def test_every_rank_gets_every_sum(ranks: int, calls: list[int], seed: int) -> None:
    model = Modelled(ranks=ranks, calls=calls)
    model.run(Random(seed))
    wanted = sorted(
        (
            call,
            channel,
            *(
                sum(1000 * call + 100 * rank + 10 * channel + n for rank in range(ranks))
                for n in range(model.numbers)
            ),
        )
        for call, count in enumerate(calls)
        for channel in range(count)
    )
    assert all(sorted(model.sums[rank]) == wanted for rank in range(ranks))


def test_one_place_is_too_few() -> None:
    with pytest.raises(Overwritten):
        Modelled(ranks=2, calls=[1] * 20, places=1).run(Random(1))


class Meeting:
    """A store of one process: `get` waits for what others set."""

    def __init__(self) -> None:
        self._words: dict[str, str] = {}
        self._is_said = threading.Condition()

    def set(self, key: str, value: str) -> None:
        with self._is_said:
            self._words[key] = value
            self._is_said.notify_all()

    def get(self, key: str) -> bytes:
        with self._is_said:
            assert self._is_said.wait_for(lambda: key in self._words, timeout=30)
            return self._words[key].encode()


@dataclass
class Device:
    """Inboxes that are numbers; some can't be lent or opened."""

    index: int
    lends: bool = True
    reaches: tuple[int, ...] = (0, 1, 2)
    words: int = 0

    def make(self, words: int) -> bytes:
        if not self.lends:
            raise DeviceMemoryError("CUDA can't lend memory: error 801")
        self.words = words
        return bytes([self.index])

    def own(self) -> int:
        return 100 + self.index

    def open(self, lent: bytes) -> int:
        if lent[0] not in self.reaches:
            raise DeviceMemoryError(f"device {self.index} can't write to device {lent[0]}")
        return 1000 * (1 + self.index) + lent[0]


def agreed(devices: list[Device]) -> list[Inboxes | str]:
    """What each rank of a group finds."""
    store, found = Meeting(), {}

    def meet(index: int) -> None:
        found[index] = agree(store, devices[index], index=index, count=len(devices), device=CPU)

    ranks = [threading.Thread(target=meet, args=(index,)) for index in range(len(devices))]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    return [found[index] for index in range(len(devices))]


def test_each_rank_opens_the_others_inboxes() -> None:
    devices = [Device(index) for index in range(3)]
    for index, found in enumerate(agreed(devices)):
        assert isinstance(found, Inboxes)
        wanted = [1000 * (1 + index) + other for other in range(3)]
        wanted[index] = 100 + index
        assert found.addresses == tuple(wanted)
        assert (found.index, found.count, found.most) == (index, 3, CHANNELS * NUMBERS)
        assert devices[index].words == inbox_words(3)


@pytest.mark.parametrize(
    ("devices", "why"),
    [
        ([Device(0), Device(1, lends=False)], "CUDA can't lend memory: error 801"),
        ([Device(0), Device(1), Device(2, reaches=(0, 2))], "device 2 can't write to device 1"),
    ],
)
def test_one_that_can_not_keeps_all_from_it(devices: list[Device], why: str) -> None:
    assert agreed(devices) == [why] * len(devices)
