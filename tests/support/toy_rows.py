"""Toy values of the one row of a batch, with a tensor's operators, and the functions of shapes."""

import operator
from collections.abc import Callable
from typing import Any

from mstarc.ir.interpret.evaluate import cut
from mstarc_runtime import plan_api


class Row:
    """A value of the one row, with a tensor's operators."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> "Row":  # type: ignore[override]
        return self._each(other, operator.eq)

    def __ne__(self, other: object) -> "Row":  # type: ignore[override]
        return self._each(other, operator.ne)

    def __lt__(self, other: object) -> "Row":
        return self._each(other, operator.lt)

    def __gt__(self, other: object) -> "Row":
        return self._each(other, operator.gt)

    def __le__(self, other: object) -> "Row":
        return self._each(other, operator.le)

    def __ge__(self, other: object) -> "Row":
        return self._each(other, operator.ge)

    def __add__(self, other: object) -> "Row":
        return self._each(other, operator.add)

    __radd__ = __add__

    def __mul__(self, other: object) -> "Row":
        return self._each(other, operator.mul)

    __rmul__ = __mul__

    def __sub__(self, other: object) -> "Row":
        return self._each(other, operator.sub)

    def __and__(self, other: object) -> "Row":
        return self._each(other, lambda a, b: bool(a) and bool(b))

    def __or__(self, other: object) -> "Row":
        return self._each(other, lambda a, b: bool(a) or bool(b))

    __rand__, __ror__ = __and__, __or__

    def __invert__(self) -> "Row":
        if isinstance(self.value, tuple):
            return Row(tuple(not item for item in self.value))
        return Row(not self.value)

    def _each(self, other: object, function: Callable[[Any, Any], Any]) -> "Row":
        """A function of numbers; of several, of each."""
        a, b = self.value, plain(other)
        if not isinstance(a, tuple) and not isinstance(b, tuple):
            return Row(function(a, b))
        count = len(a if isinstance(a, tuple) else b)
        ones = a if isinstance(a, tuple) else (a,) * count
        others = b if isinstance(b, tuple) else (b,) * count
        return Row(tuple(map(function, ones, others)))

    def __getitem__(self, axes: Any) -> "Row":
        first, *rest = axes
        assert first == slice(None), "the first axis is the batch"
        ends = [(a.start, a.stop) if isinstance(a, slice) else a for a in rest]
        return Row(cut(self.value, ends))

    __hash__ = None  # type: ignore[assignment]


def plain(value: Any) -> Any:
    """What a row holds; of a value that may be none, the value or None."""
    if isinstance(value, plan_api.Maybe):
        return plain(value.value) if plain(value.there) else None
    return value.value if isinstance(value, Row) else value


class ToyOps:
    """Shape functions."""

    def isin(self, value: Any, items: Any) -> Row:
        many = plain(value)
        if isinstance(many, tuple):
            return Row(tuple(item in plain(items) for item in many))
        return Row(many in plain(items))

    def stack(self, *values: Any) -> Row:
        return Row(tuple(map(plain, values)))

    def concat(self, *values: Any) -> Row:
        parts = [v if isinstance(v, tuple) else (v,) for v in map(plain, values)]
        return Row(tuple(item for part in parts for item in part))

    def pick(self, value: Any, axis: int, index: Any) -> Row:
        return Row(cut(plain(value), [(None, None)] * (axis - 1) + [plain(index)]))

    def window(self, value: Any, axis: int, start: Any, length: int) -> Row:
        first = plain(start)
        return Row(cut(plain(value), [(None, None)] * (axis - 1) + [(first, first + length)]))

    def repeat(self, value: Any, times: int) -> Row:
        assert isinstance(times, int)
        return Row((plain(value),) * times)
