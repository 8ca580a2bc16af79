"""Options of requests as tensors, for device ops that take scalars.

Numbers are filled in. Assigned, each would be a copy that waits for all that the device has to do.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

# In this order: a flag is a whole number to Python.
_DTYPES = {bool: torch.bool, int: torch.int64, float: torch.float32}


class _AnyOption(dict[str, Any]):
    """Has every option."""

    def __missing__(self, name: str) -> Any:
        return 0

    def __contains__(self, name: object) -> bool:
        return True


class OptionTable:
    """One row a slot of every number among the options, made when a plan first asks for it."""

    def __init__(self, *, slots: int, device: torch.device) -> None:
        self._slots = slots
        self._device = device
        self._values: list[Mapping[str, Any]] = [{} for _ in range(slots + 1)]
        self._columns: dict[str, Tensor] = {}
        # The numbers that stand in each column, by slot.
        self._filled: dict[str, list[Any]] = {}
        self._wants: list[Collection[str] | None] = [None] * (slots + 1)

    def admit(
        self, slot: int, options: Mapping[str, Any], wants: Collection[str] | None = None
    ) -> None:
        """Gives a slot to a request, of whose outputs somebody hears `wants`, or all."""
        self._values[slot] = options
        self._wants[slot] = wants
        for name, column in self._columns.items():
            number, filled = options.get(name, 0), self._filled[name]
            if number != filled[slot]:
                column[slot].fill_(number)
                filled[slot] = number

    def admit_any(self, slot: int) -> None:
        """Gives a slot to nobody in particular: every option is 0."""
        self._values[slot] = _AnyOption()
        self._wants[slot] = None

    def release(self, slot: int) -> None:
        self._values[slot] = {}

    def is_wanted(self, output: str, slots: Sequence[int]) -> bool:
        """Whether somebody hears an output of one of these requests."""
        wants = (self._wants[slot] for slot in slots)
        return any(each is None or output in each for each in wants)

    def value(self, slot: int, name: str) -> Any:
        """An option of one request."""
        return self._values[slot][name]

    def take(self, name: str, slots: Tensor) -> Tensor:
        """f32[B], i64[B] or bool[B]."""
        column = self._columns.get(name)
        if column is None:
            column = self._make(name)
        return column.index_select(0, slots)

    def _make(self, name: str) -> Tensor:
        present = [values[name] for values in self._values if name in values]
        assert present, f"no request has an option {name}"
        kind = next(kind for kind in _DTYPES if isinstance(present[0], kind))
        column = torch.zeros(
            self._slots + 1,
            dtype=_DTYPES[kind],
            device=self._device,
        )
        filled = self._filled[name] = [values.get(name, 0) for values in self._values]
        for slot, number in enumerate(filled):
            column[slot].fill_(number)
        self._columns[name] = column
        return column
