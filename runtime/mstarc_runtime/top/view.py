"""A frame of a server, with its rates → tables for a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mstarc_runtime.top.feed import Frame
from mstarc_runtime.top.rates import Rates

KEYS = "q quits, p pauses, + and - show more and fewer steps"
_STATES = {"ready": "green", "lost": "bold red", "ended": "bold red"}
_BAR = 10


def view(
    frame: Frame, rates: Rates, *, address: str, most_steps: int, said: str = ""
) -> RenderableType:
    """All there is to see."""
    parts: list[RenderableType] = [_head(frame, address)]
    if said:
        # At the top: what does not fit a terminal is cut off at its foot.
        parts.append(Text(said, style="dim"))
    parts += [_totals(frame, rates), Text()]
    parts += [_workers(frame, rates), Text()]
    if rates.busiest:
        parts += [_steps(rates, most_steps), Text()]
    parts.append(_requests(frame))
    return Group(*parts)


def _head(frame: Frame, address: str) -> Text:
    text = Text()
    text.append(frame["model"], style="bold")
    text.append(f" on {frame['placement']}  ")
    text.append(frame["state"], style=_STATES.get(frame["state"], "yellow"))
    text.append(f"  {address}", style="dim")
    return text


def _totals(frame: Frame, rates: Rates) -> Text:
    totals, requests = frame["totals"], frame["requests"]
    running = sum(1 for request in requests if request["state"] == "runs")
    text = Text()
    text.append(f"slots {bar(running, frame['slots'])} {running}/{frame['slots']}")
    text.append(f"  queue {len(requests) - running}/{frame['queue']}")
    text.append(f"  {rates.tokens_per_s:.0f} tokens/s")
    if totals["sound_s"] or rates.sound_per_s:
        text.append(f"  {rates.sound_per_s:.1f} s of sound a second")
    text.append("\n")
    text.append(f"finished {totals['finished']:.0f}")
    for name, style in (("failed", "red"), ("cancelled", ""), ("refused", "yellow")):
        text.append(f"  {name} {totals[name]:.0f}", style=style if totals[name] else "")
    text.append(
        f"  gaps in sound {totals['underruns']:.0f}", style="yellow" if totals["underruns"] else ""
    )
    return text


def _workers(frame: Frame, rates: Rates) -> Table:
    table = _table(
        "Workers", "rank", "device", "", ">steps/s", ">host µs", "pages", "where rows are"
    )
    for worker in frame["workers"]:
        process = worker["process"]
        name = f"{worker['rank']}" + (f", copy {worker['copy']}" if worker["copy"] else "")
        table.add_row(
            name,
            worker["device"],
            _standing(frame, worker),
            f"{rates.steps_per_s.get(process, 0.0):.0f}",
            f"{rates.host_us.get(process, 0.0):.0f}",
            _pages(worker["pages"]),
            _rows(worker["rows"]),
        )
    return table


def _standing(frame: Frame, worker: Mapping[str, Any]) -> Text:
    """Whether it answers. One that is in a long step does not, and is well."""
    if worker["answers"]:
        return Text("answers", "green")
    if frame["state"] == "ready" and frame["requests"]:
        return Text("busy", "yellow")
    return Text("silent", "bold red")


def _pages(pages: Mapping[str, Mapping[str, int]]) -> str:
    return "\n".join(
        f"{bar(page['used'], page['used'] + page['free'])} "
        f"{node} {page['used']}/{page['used'] + page['free']}"
        for node, page in pages.items()
    )


def _rows(rows: Mapping[str, Mapping[str, Sequence[int]]]) -> str:
    return "\n".join(
        f"{step} " + ", ".join(f"{len(numbers)} {how}" for how, numbers in places.items())
        for step, places in rows.items()
    )


def _steps(rates: Rates, most: int) -> Table:
    table = _table("Steps", "step", "node", "rank", ">a second", ">requests", ">host µs", ">job µs")
    for step in rates.busiest[:most]:
        table.add_row(
            step.step,
            ", ".join(step.nodes),
            str(step.rank),
            f"{step.runs_per_s:.1f}",
            f"{step.requests_per_run:.1f}",
            f"{step.host_us:.0f}",
            f"{step.job_us:.0f}" if step.job_us else "",
        )
    return table


def _requests(frame: Frame) -> RenderableType:
    if not frame["requests"]:
        return Text("no requests now", style="dim")
    places = _places(frame["workers"])
    columns = (">no.", "route", "where", ">tokens", ">sound s", ">age s", "id")
    table = _table("Requests", *columns)
    for request in frame["requests"]:
        number = request["number"]
        waits = request["state"] == "waits"
        table.add_row(
            "-" if number is None else str(number),
            request["route"],
            "waits for a slot" if waits else ", ".join(places.get(number, ["on its way"])),
            str(request["tokens"]),
            f"{request['sound_s']:.1f}",
            f"{request['age_s']:.1f}",
            request["id"],
        )
    return table


def _places(workers: Iterable[Mapping[str, Any]]) -> dict[int, list[str]]:
    """The steps of each request."""
    found: dict[int, list[str]] = {}
    for worker in workers:
        for step, places in worker["rows"].items():
            for number in [number for numbers in places.values() for number in numbers]:
                found.setdefault(number, []).append(step)
    return found


def _table(title: str, *columns: str) -> Table:
    """Plain columns; those that begin with `>` are numbers."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for column in columns:
        right = column.startswith(">")
        table.add_column(
            column.removeprefix(">"),
            justify="right" if right else "left",
            header_style="dim",
            no_wrap=right,
            overflow="fold",
        )
    return table


def bar(part: float, whole: float) -> str:
    """A share as ten signs.

    >>> bar(3, 8), bar(0, 0), bar(1, 1000)
    ('####······', '··········', '#·········')
    """
    full = 0 if whole <= 0 else min(_BAR, -(-int(part * _BAR) // max(1, int(whole))))
    full = max(full, 1 if part and whole else 0)
    return "#" * full + "·" * (_BAR - full)
