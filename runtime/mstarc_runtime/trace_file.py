"""Spans → a file in the trace format of Chrome, which Perfetto reads, and how busy devices were.

A rank is a process of the trace, with a row *host* and a row of its device for each machine, since
machines may run side by side; requests are a process of their own with a row a slot, from being let
in to the first output and from there to the end. Times begin with the first span.
"""

import json
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from mstarc_runtime.trace import RequestTrace, Span

_REQUESTS = 0
Interval = tuple[int, int]


def trace_of(ranks: Mapping[str, Sequence[Span]], requests: RequestTrace) -> dict[str, Any]:
    """The content of a trace file. `ranks` are their spans by what they are called."""
    spans = [*_request_spans(requests)]
    named: list[dict[str, Any]] = []
    for process, (_, found) in enumerate(ranks.items(), 1):
        rows = {name: row for row, name in enumerate(sorted({_row(span) for span in found}), 1)}
        spans += [(process, rows[_row(span)], *span[1:]) for span in found]
        named += [_named("thread_name", process, row, name) for name, row in rows.items()]
    origin = min((span[3] for span in spans), default=0)
    events = named
    for process, name in enumerate(["requests", *ranks]):
        events.append(_named("process_name", process, 0, name))
        events.append(
            {
                "ph": "M",
                "name": "process_sort_index",
                "pid": process,
                "args": {"sort_index": process},
            }
        )
    for slot in sorted(set(requests.slots.values())):
        events.append(_named("thread_name", _REQUESTS, slot + 1, f"slot {slot}"))
    events += [
        {
            "ph": "X",
            "name": name,
            "pid": process,
            "tid": row,
            "ts": (begun - origin) / 1e3,
            "dur": length / 1e3,
            "args": facts,
        }
        for process, row, name, begun, length, facts in sorted(spans, key=_by_begin)
    ]
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def write_trace(path: Path, content: Mapping[str, Any]) -> None:
    """Fails with MS9002 or MS9003."""
    # Here, because who reads a trace's figures writes none.
    from mstarc_runtime.answer import write_whole

    write_whole(path, json.dumps(content).encode())


def _row(span: Span) -> str:
    return f"device: {span[1].partition('.')[0]}" if span[0] == "device" else " host"


_Placed = tuple[int, int, str, int, int, dict[str, Any]]


def _by_begin(span: _Placed) -> tuple[int, int]:
    # Of two that begin together the longer one holds the other.
    return (span[3], -span[4])


def _named(kind: str, process: int, row: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": row, "args": {"name": name}}


def _request_spans(requests: RequestTrace) -> Iterator[_Placed]:
    for number, times in requests.times.items():
        slot = requests.slots.get(number)
        if slot is None or "ended" not in times:
            continue
        facts = {"request": number}

        def span(name: str, begun: int, ended: int, row: int = slot + 1) -> _Placed:
            return (_REQUESTS, row, name, begun, ended - begun, facts)  # noqa: B023

        begun, ended = times["admitted"], times["ended"]
        yield span(f"request {number}", begun, ended)
        yield span("to first output", begun, times.get("made", ended))
        if "made" in times:
            yield span("after first output", times["made"], ended)


# How busy


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """While so many requests ran, all past their first output: ns of wall time, and of it busy."""

    requests: int
    wall_ns: int
    busy_ns: int

    @property
    def share(self) -> float:
        return self.busy_ns / self.wall_ns if self.wall_ns else 0.0


def steady_shares(spans: Sequence[Span], requests: RequestTrace) -> list[Busy]:
    """How busy a device was in steady decode, by the number of requests that ran together.

    Steady is every time between two events of requests (let in, first output, end) in which each
    request that is in has made something.
    """
    windows = _steady(requests)
    busy = _union(
        [(begun, begun + length) for row, _, begun, length, _ in spans if row == "device"]
    )
    found: dict[int, list[int]] = {}
    for count, begin, end in windows:
        sums = found.setdefault(count, [0, 0])
        sums[0] += end - begin
        sums[1] += _overlap(busy, begin, end)
    return [Busy(requests=n, wall_ns=sums[0], busy_ns=sums[1]) for n, sums in sorted(found.items())]


def _steady(requests: RequestTrace) -> list[tuple[int, int, int]]:
    """(requests, from, to)."""
    events: list[tuple[int, int, int]] = []  # when, change of those in, of those without output
    for times in requests.times.values():
        if "admitted" in times and "ended" in times:
            made = times.get("made", times["ended"])
            events += [(times["admitted"], 1, 1), (made, 0, -1), (times["ended"], -1, 0)]
    events.sort()
    windows = []
    inside = silent = 0
    for (at, more, quiet), following in pairwise(events):
        inside += more
        silent += quiet
        if inside and not silent and following[0] > at:
            windows.append((inside, at, following[0]))
    return windows


def _union(intervals: list[Interval]) -> list[Interval]:
    merged: list[Interval] = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def _overlap(intervals: list[Interval], begin: int, end: int) -> int:
    """Of intervals that ascend and are apart."""
    total = 0
    for place in range(max(0, bisect(intervals, (begin, begin)) - 1), len(intervals)):
        a, b = intervals[place]
        if a >= end:
            break
        total += max(0, min(b, end) - max(a, begin))
    return total
