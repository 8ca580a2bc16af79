"""Counters and histograms by labels, told in the terms of Prometheus.

The library's own take a lock for each number; all of these are counted in asyncio's thread, at each
request several, and are read there too.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector


class Count:
    """What only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1.0) -> None:
        self.value += amount


class Spread:
    """How often a value was at most each of some bounds, which rise.

    >>> spread = Spread((1.0, 2.0))
    >>> for value in (0.5, 1.0, 1.5, 9.0):
    ...     spread.observe(value)
    >>> spread.buckets(), spread.total
    ([('1.0', 2), ('2.0', 3), ('+Inf', 4)], 12.0)
    """

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        names = [*(str(bound) for bound in self._bounds), "+Inf"]
        return list(zip(names, accumulate(self._counts), strict=True))


class Counts(Collector):
    """A counter for each set of labels."""

    def __init__(self, name: str, what: str, labels: Sequence[str]) -> None:
        self._name, self._what, self._labels = name, what, labels
        self._found: dict[tuple[str, ...], Count] = {}

    def labels(self, *labels: str) -> Count:
        found = self._found.get(labels)
        if found is None:
            found = self._found[labels] = Count()
        return found

    def total(self, **labels: str) -> float:
        """The sum of those with these labels."""
        return sum(
            count.value
            for values, count in self._found.items()
            if labels.items() <= dict(zip(self._labels, values, strict=True)).items()
        )

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(self._name, self._what, labels=self._labels)
        for values, count in self._found.items():
            family.add_metric(values, count.value)
        yield family


class Spreads(Collector):
    """A histogram for each set of labels."""

    def __init__(
        self, name: str, what: str, labels: Sequence[str], bounds: Sequence[float]
    ) -> None:
        self._name, self._what, self._labels, self._bounds = name, what, labels, bounds
        self._found: dict[tuple[str, ...], Spread] = {}

    def labels(self, *labels: str) -> Spread:
        found = self._found.get(labels)
        if found is None:
            found = self._found[labels] = Spread(self._bounds)
        return found

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(self._name, self._what, labels=self._labels)
        for values, spread in self._found.items():
            family.add_metric(values, spread.buckets(), spread.total)
        yield family
