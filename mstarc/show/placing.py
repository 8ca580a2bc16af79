"""What `mstarc place` says: the best layout as a picture, those that follow, memory, bottleneck.

One `Placing` → text for a terminal or a file, or JSON. Nothing is decided here.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mstarc.analysis.placement.choose import Choice
from mstarc.analysis.placement.problem import Home, Layout
from mstarc.codegen.views.amounts import amount_of_bytes, amount_of_seconds, count_of
from mstarc.ir.graph import Program
from mstarc.records import dataclass

_BOLD, _DIM, _COLOURS, _PLAIN = (
    "\x1b[1m",
    "\x1b[2m",
    ("\x1b[36m", "\x1b[33m", "\x1b[32m"),
    "\x1b[0m",
)

WIDTH = 100
"""Of a line, in letters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placing:
    """A choice, and the program as it is placed by the best of it, memory counted."""

    program: Program
    devices: str
    choice: Choice


def placing_text(placing: Placing, *, colour: bool) -> str:
    """The answer for people; escapes only with `colour`."""
    choice = placing.choice
    best = choice.layouts[0]

    def bold(text: str) -> str:
        return f"{_BOLD}{text}{_PLAIN}" if colour else text

    lines = [
        bold(f"{placing.program.model} on {placing.devices}") + f", best {choice.objective}:"
        f" {_summary(best)}",
        "",
        *_picture(placing, colour),
        "",
        *_bottleneck(placing),
        *_shards(choice),
        "",
        bold("memory"),
        *_memory(placing),
    ]
    if len(choice.layouts) > 1:
        lines += ["", bold("next best")]
        lines += _runners_up(choice)
    at_once = choice.table.mix.at_once
    where = "on each copy" if at_once is None else "on all copies together"
    lines += ["", f"for {_requests(choice)} {where}, as they are expected"]
    return "\n".join(lines) + "\n"


def _summary(layout: Layout) -> str:
    return (
        f"{amount_of_seconds(layout.latency_s)} a request alone, "
        f"{_rate(layout)} requests a second, "
        f"{count_of(_device_count(layout), 'device')}"
    )


def _rate(layout: Layout) -> str:
    return f"{1 / layout.period_s:.3g}" if layout.period_s else "any number of"


def _device_count(layout: Layout) -> int:
    pairs = zip(layout.sets, layout.copies, strict=True)
    return sum(len(ranks) * copies for ranks, copies in pairs)


def _requests(choice: Choice) -> str:
    asked = choice.table.limits.requests
    if choice.table.mix.at_once is not None:
        return f"{count_of(choice.table.mix.at_once, 'request')} at once"
    if choice.requests < asked:
        return f"{count_of(choice.requests, 'request')} at once (there is no room for {asked})"
    return f"{count_of(choice.requests, 'request')} at once"


# The picture


def _picture(placing: Placing, colour: bool) -> list[str]:
    """A line a rank: its device, its copies, how busy it is, what it holds."""
    choice = placing.choice
    layout = choice.layouts[0]
    shares = _shares(layout)
    busiest = max(shares) or 1.0
    rows: list[tuple[int, str, str, list[str]]] = []
    for ranks in layout.sets:
        for rank in ranks:
            number = choice.chosen.numbers[rank]
            others = [c.device for c in choice.chosen.copies if c.rank == number]
            filled = round(10 * shares[rank] / busiest)
            bar = "█" * filled + "·" * (10 - filled)
            where = f"rank {number}" + (f" and {_numbers(others)}" if others else "")
            if colour:
                bar = f"{_COLOURS[number % len(_COLOURS)]}{bar}{_PLAIN}"
            rows.append((number, where, bar, _held(choice, layout, rank)))
    longest = max(len(where) for _, where, _, _ in rows)
    lines = []
    for _, where, bar, held in sorted(rows):
        wrapped = _lines(" " * (longest + 15), [f"{name}," for name in held])
        lines += [f"  {where:<{longest}} {bar}  {wrapped[0].strip()}", *wrapped[1:]]
        lines[-1] = lines[-1].removesuffix(",")
    return lines


def _shares(layout: Layout) -> list[float]:
    """Seconds that a request keeps each rank busy, over its copies."""
    copies = {rank: n for s, n in zip(layout.sets, layout.copies, strict=True) for rank in s}
    return [load / copies[rank] for rank, load in enumerate(layout.load_s)]


def _numbers(devices: Sequence[int]) -> str:
    """Device numbers, runs of them with a dash."""
    runs: list[list[int]] = []
    for device in sorted(devices):
        if runs and runs[-1][1] == device - 1:
            runs[-1][1] = device
        else:
            runs.append([device, device])
    shown = [f"{a}" if a == b else f"{a}-{b}" for a, b in runs]
    return ", ".join([*shown[:3], f"{len(shown) - 3} more"] if len(shown) > 4 else shown)


def _held(choice: Choice, layout: Layout, rank: int) -> list[str]:
    """The nodes of a rank: by name, or what of one runs here if other ranks have more of it."""
    found: list[str] = []
    parts = choice.model.parts
    nodes = list(dict.fromkeys(parts[name].node for name in choice.model.flow))
    for node in nodes:
        names = [name for name in choice.model.flow if parts[name].node == node]
        here = [name for name in names if rank in layout.homes[name].ranks]
        if not here:
            continue
        home = layout.homes[here[0]]
        homes = [layout.homes[name] for name in names]
        most = max(dict.fromkeys(homes), key=homes.count)
        label = node if home == most else " + ".join(here)
        found.append(label + _cut(home))
    return found


def _cut(home: Home) -> str:
    return f" (1/{home.option.ranks})" if home.option.ranks > 1 else ""


# What limits it, what it takes, what comes next


def _bottleneck(placing: Placing) -> list[str]:
    choice = placing.choice
    layout = choice.layouts[0]
    shares = _shares(layout)
    busiest = max(range(len(shares)), key=lambda rank: (shares[rank], -rank))
    pieces = {
        piece.name: piece.busy_s[layout.homes[piece.name].option]
        for piece in choice.model.problem.pieces
        if busiest in layout.homes[piece.name].ranks
    }
    heaviest = max(sorted(pieces), key=pieces.__getitem__)
    shared = pieces[heaviest] / (layout.load_s[busiest] or 1.0)
    return [
        f"bottleneck: rank {choice.chosen.numbers[busiest]}, which a request keeps busy for "
        f"{amount_of_seconds(layout.load_s[busiest])}, {100 * shared:.0f} % of it {heaviest}"
    ]


def _shards(choice: Choice) -> list[str]:
    """What it costs that calls of nodes in shards are told to their other ranks."""
    told = _told_s(choice, choice.layouts[0])
    if not told:
        return []
    calls = round(sum(runs for runs, _ in told))
    seconds = sum(runs * each for runs, each in told)
    return [
        f"shards: {count_of(calls, 'call')} of a request told to other ranks, which takes "
        f"{amount_of_seconds(seconds)} of it"
    ]


def _told_s(choice: Choice, layout: Layout) -> list[tuple[float, float]]:
    """(calls of a request, seconds that telling one takes) of each piece on several ranks."""
    kinds = choice.table.cluster.kinds
    found = []
    for name in choice.model.flow:
        option = layout.homes[name].option
        each = choice.table.told_s(kinds[option.kind], option.ranks)
        if each:
            found.append((sum(call.runs for call in choice.model.parts[name].calls), each))
    return found


def _memory(placing: Placing) -> list[str]:
    rows: dict[int, dict[str, int]] = {}
    for row in placing.program.memory:
        of = rows.setdefault(row.rank, {})
        what = row.what.replace("_", " ")
        of[what] = of.get(what, 0) + row.bytes
    placement = placing.program.placement
    assert placement is not None
    total = {device.rank: device.memory_bytes for device in placement.devices}
    groups: dict[tuple[tuple[str, int], ...], list[int]] = {}
    for rank, of in sorted(rows.items()):
        groups.setdefault(tuple(of.items()), []).append(rank)
    lines = []
    longest = max(len(_numbers(ranks)) for ranks in groups.values())
    for things, ranks in groups.items():
        used = sum(size for _, size in things)
        head = (
            f"  device {_numbers(ranks):<{longest}}  {amount_of_bytes(used):>7} of "
            f"{amount_of_bytes(total[ranks[0]])}: "
        )
        items = [f"{what} {amount_of_bytes(size)}," for what, size in things]
        wrapped = _lines(" " * len(head), items)
        lines += [head + wrapped[0].strip(), *wrapped[1:]]
        lines[-1] = lines[-1].removesuffix(",")
    return lines


def _runners_up(choice: Choice) -> list[str]:
    best = choice.layouts[0]
    lines = []
    for layout in choice.layouts[1:]:
        worse = layout.key[0] / best.key[0] - 1 if best.key[0] else 0.0
        shown = f"{100 * worse:.1f} % worse" if worse >= 0.0005 else "as good"
        wrapped = _lines(" " * 16, _arrangement(choice, layout))
        lines += [f"  {shown:>12}: {wrapped[0].strip()}", *wrapped[1:]]
    return lines


def _arrangement(choice: Choice, layout: Layout) -> Iterator[str]:
    """A layout: the ranks with their nodes, and their copies; a text a rank."""
    for ranks, copies in zip(layout.sets, layout.copies, strict=True):
        for rank in ranks:
            begin = "" if rank != ranks[0] else f"{copies} × [" if copies > 1 else "["
            end = "]" if rank == ranks[-1] else " |"
            yield begin + " ".join(_held(choice, layout, rank)) + end


def _lines(indent: str, pieces: Iterable[str]) -> list[str]:
    """Lines of whole pieces, indented; one that is longer than a line is broken between words."""
    lines = [indent]
    whole = (p.split(" ") if len(indent) + len(p) > WIDTH else [p] for p in pieces)
    for piece in (part for parts in whole for part in parts):
        if lines[-1] != indent and len(lines[-1]) + 1 + len(piece) > WIDTH:
            lines.append(indent)
        lines[-1] += piece if lines[-1] == indent else f" {piece}"
    return lines


# JSON


def placing_json(placing: Placing) -> str:
    """The same as one JSON object; seconds, bytes, requests a second."""
    choice = placing.choice
    document = {
        "schema": 1,
        "model": placing.program.model,
        "devices": placing.devices,
        "objective": choice.objective,
        "requests_at_once": choice.requests,
        "choice": _layout_object(choice, choice.layouts[0])
        | {
            "assignments": [
                {
                    "node": a.node,
                    "ranks": list(a.ranks),
                    "walks": list(a.walks),
                    "contexts": list(a.contexts),
                    "tp": a.tp,
                    "sp": a.sp,
                }
                for a in choice.chosen.assignments
            ],
            "copies": [
                {"rank": c.rank, "copy": c.copy, "device": c.device} for c in choice.chosen.copies
            ],
        },
        "runners_up": [_layout_object(choice, layout) for layout in choice.layouts[1:]],
        "bottleneck": _bottleneck(placing)[0],
        "memory": [
            {"device": row.rank, "what": row.what, "of": row.of, "bytes": row.bytes}
            for row in placing.program.memory
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def _layout_object(choice: Choice, layout: Layout) -> dict[str, Any]:
    best = choice.layouts[0]
    return {
        "latency_s": layout.latency_s,
        "telling_s": sum(runs * each for runs, each in _told_s(choice, layout)),
        "requests_per_s": 1 / layout.period_s if layout.period_s else None,
        "price": layout.price,
        "devices": _device_count(layout),
        "worse_by": layout.key[0] / best.key[0] - 1 if best.key[0] else 0.0,
        "ranks": [
            {
                "rank": rank,
                "holds": _held(choice, layout, rank),
                "busy_s": layout.load_s[rank],
                "bytes": layout.bytes_used[rank],
            }
            for rank in range(len(layout.load_s))
        ],
        "sets": [
            {"ranks": list(ranks), "copies": copies}
            for ranks, copies in zip(layout.sets, layout.copies, strict=True)
        ],
    }
