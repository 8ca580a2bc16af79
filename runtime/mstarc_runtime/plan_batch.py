"""What a step sees: the rows of its batch, or one request of a host step, and what they hold.

A register, values, a collector and a ring hold something for each slot; a step takes and puts rows
of all its requests at once. Part of `plan_api`, by whose name plans import it. Standard library
only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Tensor = Any
"""A device tensor; plans never name the library that makes it."""


@dataclass(frozen=True, slots=True)
class Maybe:
    """What an op gets for `x: T or none`: [B, *dims], zeros where a row has none; bool[B]."""

    value: Tensor
    there: Tensor


class Batch(Protocol):
    """The rows of one step, padded to its bucket. Only `run` and `prepare` see one."""

    def more(self, condition: Tensor | bool) -> Tensor:
        """Set the loop's flag: bool[B], true where another pass runs (never beyond the bound).

        `True` says that nothing but the bound ends the loop here.
        """

    def emit(self, output: str, value: Tensor, where: Tensor | None = None) -> None:
        """Hand `value` (leading dim B, or packed) to the client's `output`."""

    def hand_over(self, output: str, values: "Values", where: Tensor | None = None) -> None:
        """Hand each row's host value to the client's `output`."""

    def option(self, name: str) -> Tensor:
        """An option of each row's request: f32[B], i64[B], or bool[B]."""

    def chosen(self, name: str, passes: "Passes | None" = None) -> Sequence[int]:
        """A whole number among each request's options; of a tuple, the entry of its pass."""

    def count(self, name: str, index: int | None = None) -> int:
        """A whole number among the options of the one request; of a tuple, its entry."""

    def full(self, value: int | float, dtype: str) -> Tensor:
        """One number in every row: [B]."""

    def alike(self, value: Tensor, number: int | float, dtype: str, *, dims: int) -> Tensor:
        """One number for each item of `value`, whose items have `dims` dims: [B, k], or [Σk]."""

    def some(self, value: Tensor) -> Maybe:
        """A value that is there in every row."""

    def maybe(self, value: Tensor, there: Tensor) -> Maybe:
        """A value that is there in some rows: bool[B]."""

    def none(self, dtype: str, dims: tuple[int, ...]) -> Maybe:
        """A value that is there in no row."""

    def stacked(self, constant: Tensor) -> Tensor:
        """A constant in every row: [B, *dims]."""

    def packed(self, constant: Tensor) -> Tensor:
        """A constant's rows once a request, one behind the other: [B * k, *dims[1:]]."""


class Job(Protocol):
    """One request at a host step."""

    slot: int
    options: Mapping[str, Any]

    def input(self, name: str) -> Any:
        """A request input as a host value: `str`, `Audio`, …; None if the request has none."""

    def emit(self, output: str, value: Any) -> None:
        """Hand a host value to the client's `output`."""


class Register(Protocol):
    """A value of fixed shape, one row a slot, on the device."""

    def take(self, batch: Batch) -> Tensor:
        """[B, *dims]"""

    def put(self, batch: Batch, value: Tensor) -> None:
        """Store [B, *dims] into the batch's slots."""

    def get(self, job: Job) -> Tensor:
        """[*dims] on the host."""

    def set(self, job: Job, value: Any) -> None:
        """Store a host value."""

    def release(self, slot: int) -> None: ...


class Values(Protocol):
    """A value whose shape differs from request to request, or a host object: one a slot."""

    def pack(self, batch: Batch) -> Tensor:
        """Rows of all requests one behind the other: [ΣT, …]."""

    def stack(self, batch: Batch) -> Tensor:
        """Requests of equal shapes: [B, …]."""

    def put(self, batch: Batch, value: Tensor) -> None: ...

    def lengths(self, batch: Batch, axis: int = 0) -> Sequence[int]:
        """Rows of each request: how long its value is there."""

    def numbers(self, batch: Batch) -> Sequence[int]:
        """The value of each request, which is one whole number that the host knows."""

    def get(self, job: Job) -> Any: ...

    def set(self, job: Job, value: Any) -> None: ...

    def release(self, slot: int) -> None: ...


class Collector(Protocol):
    """`collect`: one row a pass, at most `capacity` a request."""

    def reset(self, batch: Batch) -> None: ...

    def append(self, batch: Batch, value: Tensor, where: Tensor | None = None) -> None: ...

    def get(self, job: Job) -> Tensor:
        """[passes, *dims] on the host."""

    def pack(self, batch: Batch) -> Tensor: ...

    def stack(self, batch: Batch) -> Tensor:
        """The rows of the one request: [1, passes, *dims]."""

    def lengths(self, batch: Batch) -> Sequence[int]: ...

    def release(self, slot: int) -> None: ...


class Ring(Protocol):
    """A stream's buffer on the rank that reads it, or the way to it from another rank."""

    def append(
        self,
        batch: Batch,
        value: Tensor,
        where: Tensor | None = None,
        ends: Tensor | None = None,
    ) -> None:
        """Send an item of each row, [B, *item], or several, [B, k, *item], where `where` holds.

        `ends`: bool[B] or bool[B, k], items that end a chunk (`until`).
        """

    def window(self, batch: Batch) -> Tensor:
        """The chunk of each row, of one length: [B, k, *item]; [B, *item] for `fixed(1)`."""

    def pack(self, batch: Batch) -> Tensor:
        """The chunks of all rows one behind the other: [Σk, *item]."""

    def item(self, batch: Batch) -> Tensor:
        """The item that the step pulls for each row: [B, *item]."""

    def item_or_none(self, batch: Batch) -> Maybe:
        """The item that the step pulls for each row; none where the stream is closed and empty."""

    def lengths(self, batch: Batch) -> Sequence[int]: ...

    def chunk(self, job: Job) -> Tensor:
        """The chunk of one request, on the host: [k, *item]."""

    def release(self, slot: int) -> None: ...


class Passes(Protocol):
    """Which pass of a loop a request is in, from 0; the steps of the pass may ask."""

    def number(self, slot: int) -> int:
        """On the host."""

    def count(self, batch: Batch) -> int:
        """On the host, of the one request of a batch."""

    def index(self, batch: Batch) -> Tensor:
        """i64[B], for a step that lists the loop in `passes`."""


class Table(Protocol):
    """Numbers of a request that admission has computed: a tuple among `Admission.options`."""

    def at(self, batch: Batch, index: Tensor | int) -> Tensor:
        """Each row's entry at `index` (one for all rows, or i64[B]): [B]."""
