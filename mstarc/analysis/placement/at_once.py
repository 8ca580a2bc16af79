"""The best layouts for so many requests at once, on all copies together.

The search takes one number of requests for each copy. Copies share those that there are: the more
copies, the fewer rows a step of each has for the same weights that it reads. So for each number of
copies of a whole layout the best one is searched with its part of the requests, and beside it the
best one whose sets of ranks are copied each for itself, counted again with as many requests as each
set then has. The best of all of them is chosen.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

from mstarc.analysis.placement.model import Model
from mstarc.analysis.placement.problem import Layout, Objective, Problem
from mstarc.analysis.placement.score import bytes_used, key_of, loads
from mstarc.analysis.placement.search import search
from mstarc.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """`layouts`, the best first, with its `model`; a copy of it has at most `requests` at once."""

    model: Model
    requests: int
    layouts: tuple[Layout, ...]


def layouts_at_once(
    model_of_requests: Callable[[int], Model],
    at_once: int,
    objective: Objective,
    keep: int,
    apart: float = 0.0,
) -> Shared | None:
    """The best layouts for `at_once` requests; None where none has room, or there is no piece.

    Each is worse than the one before by more than the part `apart`.
    """
    model_of = cache(model_of_requests)
    whole = model_of(at_once)
    if not whole.problem.pieces:
        return None
    found: list[tuple[tuple[float, ...], int, int, Layout]] = []
    devices = sum(part.count for part in whole.problem.supply)
    for copies in _numbers(min(devices, at_once)):
        requests = -(-at_once // copies)
        problem = model_of(requests).problem
        for layout in search(_part_of(problem, copies), objective, keep=keep, apart=apart):
            copied = _copied(layout, copies, objective)
            found.append((copied.key, len(found), requests, copied))
        for layout in search(problem, objective, keep=keep, apart=apart):
            counted = _counted_again(layout, model_of, at_once, objective)
            if counted is not None:
                most = -(-at_once // min(counted.copies))
                found.append((counted.key, len(found), most, counted))
    if not found:
        return None
    found.sort(key=lambda entry: entry[:2])
    (_, _, requests, best), *others = found
    kept = [best]
    for key, _, _, layout in others:
        if key[0] > kept[-1].key[0] * (1.0 + apart) and len(kept) < keep:
            kept.append(layout)
    return Shared(model=model_of(requests), requests=requests, layouts=tuple(kept))


def _numbers(most: int) -> Iterator[int]:
    """Powers of two up to a number, and the number.

    >>> list(_numbers(6)), list(_numbers(4))
    ([1, 2, 4, 6], [1, 2, 4])
    """
    number = 1
    while number < most:
        yield number
        number *= 2
    yield most


def _part_of(problem: Problem, copies: int) -> Problem:
    """The problem with the devices that one of so many copies gets."""
    supply = tuple(replace(part, count=part.count // copies) for part in problem.supply)
    return replace(problem, supply=supply, copies_alike=True)


def _copied(layout: Layout, copies: int, objective: Objective) -> Layout:
    """So many copies of a layout."""
    period, price = layout.period_s / copies, layout.price * copies
    return replace(
        layout,
        copies=(copies,) * len(layout.sets),
        period_s=period,
        price=price,
        key=key_of(objective, period, layout.latency_s, price),
    )


def _counted_again(
    layout: Layout, model_of: Callable[[int], Model], at_once: int, objective: Objective
) -> Layout | None:
    """A layout with as many requests on each of its sets as it has; None where they lack room."""
    load_s, used = list(layout.load_s), list(layout.bytes_used)
    for ranks, copies in zip(layout.sets, layout.copies, strict=True):
        problem = model_of(-(-at_once // copies)).problem
        each_s = loads(problem, layout.homes, len(load_s))
        size = bytes_used(problem, layout.homes, len(load_s))
        for rank in ranks:
            load_s[rank], used[rank] = each_s[rank], size[rank]
            if size[rank] > problem.supply[layout.kinds[rank]].capacity_bytes:
                return None
    period = max(
        max(load_s[rank] for rank in ranks) / copies
        for ranks, copies in zip(layout.sets, layout.copies, strict=True)
    )
    return replace(
        layout,
        load_s=tuple(load_s),
        bytes_used=tuple(used),
        period_s=period,
        key=key_of(objective, period, layout.latency_s, layout.price),
    )
