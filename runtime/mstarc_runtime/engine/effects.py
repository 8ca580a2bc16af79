"""What a step's run leaves to be done on the host, in the order in which its body had it.

An effect notes what was sent, emitted or appended, and in which column of the batch's flags it says
for which rows. Landing carries effects out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mstarc_runtime.streaming.counts import Slots


class SendTarget(Protocol):
    """A ring, or the way to one: it is told what a landed step has sent."""

    name: str

    def landed(self, slots: Slots, count: int, ends: NDArray[np.bool_] | None = None) -> None:
        """`ends` [rows, count]: which items end a chunk."""
        ...


class CountTarget(Protocol):
    """A collector: it is told how many rows a landed step has added."""

    def landed_all(self, slots: Slots, count: int) -> None: ...

    def landed_reset(self, slots: Slots) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """`count` items a row went to a stream.

    Which of them end a chunk: of one item a row its column `ends` says so, of several `marks`
    [bucket, count] do. `values` [bucket, count, *item] if they must travel.
    """

    target: SendTarget
    count: int
    where: int | None
    ends: int | None
    marks: Tensor | None
    values: Tensor | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SentPacked:
    """Row i sent `counts[i]` items. `values` [Σcounts, *item] if they must travel.

    `marks` [Σcounts] say which of them end a chunk.
    """

    target: SendTarget
    counts: tuple[int, ...]
    values: Tensor | None
    marks: Tensor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """A value for the client: [bucket, …], or [Σcounts, …] with `counts` rows a request."""

    output: str
    value: Tensor
    where: int | None
    counts: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver:
    """A host value of each row for the client."""

    output: str
    values: tuple[Any, ...]
    where: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """One row a request was appended to a collector."""

    target: CountTarget
    where: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """A collector was emptied."""

    target: CountTarget


Effect = Sent | SentPacked | Emitted | HandedOver | Collected | Reset


class Ears(Protocol):
    """Knows which outputs of requests somebody hears."""

    def is_wanted(self, output: str, slots: Sequence[int]) -> bool: ...


def heard(effects: Sequence[Effect], ears: Ears, slots: Sequence[int]) -> list[Effect]:
    """The effects without outputs that nobody hears of any of these requests."""
    return [
        effect
        for effect in effects
        if not isinstance(effect, (Emitted, HandedOver)) or ears.is_wanted(effect.output, slots)
    ]
