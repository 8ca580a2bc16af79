"""A group of shards as threads of one process: collectives without sockets."""

import threading
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from mstarc_runtime.layers.shard import Shard

Result = TypeVar("Result")


class ThreadedGroup:
    """What `count` threads do together; `member` gives each its own end."""

    def __init__(self, count: int) -> None:
        self._values: list[Tensor] = [torch.empty(0)] * count
        self._barrier = threading.Barrier(count, timeout=30)

    def member(self, index: int) -> "Member":
        return Member(self, index)

    def exchange(self, index: int, value: Tensor) -> list[Tensor]:
        self._values[index] = value.clone()
        self._barrier.wait()
        values = list(self._values)
        self._barrier.wait()
        return values

    def abort(self) -> None:
        self._barrier.abort()


class Member:
    """One thread's end of a group."""

    def __init__(self, group: ThreadedGroup, index: int) -> None:
        self._group = group
        self._index = index

    def sum(self, value: Tensor) -> Tensor:
        return torch.stack(self._group.exchange(self._index, value)).sum(0)

    def broadcast(self, value: Tensor) -> Tensor:
        return value.copy_(self._group.exchange(self._index, value)[0])

    def gather(self, value: Tensor) -> list[Tensor]:
        return self._group.exchange(self._index, value)

    def inboxes(self, numbers: int) -> None:
        return None


def on_shards(count: int, work: Callable[[Shard], Result]) -> list[Result]:
    """What `work` gives on each of `count` shards, all at once."""
    group = ThreadedGroup(count)
    results: dict[int, Result] = {}
    errors: list[BaseException] = []

    def run(index: int) -> None:
        try:
            results[index] = work(Shard(index=index, count=count, group=group.member(index)))
        except BaseException as error:
            errors.append(error)
            group.abort()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [results[index] for index in range(count)]
