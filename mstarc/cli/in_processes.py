"""The same work on several things, on all processors.

Children are forks, so that they have what is loaded already; what they find comes back through a
pipe from our own process and nobody else. Where the system cannot fork, or there is one processor,
the work is done here, one thing after another: the results are the same.
"""

import os
import pickle
from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

FEWEST = 4
"""Fewer things than these are done before a child has begun."""


def mapped(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    weights: Sequence[float],
    *,
    first: int = 0,
    processes: int | None = None,
) -> list[Result]:
    """`function` of each item, in order. `weights` say how long each takes, roughly.

    Item `first` is done before there are children, so that what it loads is there for all. A child
    that fails leaves its part to this process, where the error is raised as it is.
    """
    count = _processors() if processes is None else processes
    if count < 2 or len(items) < FEWEST or not hasattr(os, "fork"):
        return [function(item) for item in items]
    made = {first: function(items[first])}
    own, *others = _parts([index for index in range(len(items)) if index != first], weights, count)
    children = [(_child(function, items, part), part) for part in others]
    made |= {index: function(items[index]) for index in own}
    for (pid, pipe), part in children:
        with os.fdopen(pipe, "rb") as stream:
            content = stream.read()
        _, status = os.waitpid(pid, 0)
        found = [function(items[index]) for index in part] if status else pickle.loads(content)
        made |= dict(zip(part, found, strict=True))
    return [made[index] for index in range(len(items))]


def _child(
    function: Callable[[Item], Result], items: Sequence[Item], part: Sequence[int]
) -> tuple[int, int]:
    """(process, pipe) of a child that does a part."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    status = 1
    try:
        content = pickle.dumps([function(items[index]) for index in part])
        with os.fdopen(writing, "wb") as stream:
            stream.write(content)
        status = 0
    finally:
        # Nothing of the parent's is ended twice: no handlers, no buffers.
        os._exit(status)


def _parts(indices: Sequence[int], weights: Sequence[float], count: int) -> list[list[int]]:
    """`count` parts of about the same weight: the heaviest first, each to the lightest part."""
    parts: list[list[int]] = [[] for _ in range(count)]
    for index in sorted(indices, key=lambda index: -weights[index]):
        min(parts, key=lambda part: sum(weights[other] for other in part)).append(index)
    return [sorted(part) for part in parts]


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
