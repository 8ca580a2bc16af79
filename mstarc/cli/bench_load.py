"""What `mstarc bench` is asked to put on plans and servers → a job for the runtime's `bench`."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from mstarc.cli.inputs import read_source, shown_path
from mstarc.cli.output import combined_report, print_report, progress
from mstarc.cli.run import look_at_plan, look_for_packages
from mstarc.diagnostics import DiagnosticSink
from mstarc.source import SourceFile

_SERVERS = ("http://", "https://")
_SLO_NAMES = ("first_output", "first_text", "first_sound", "rtf", "latency", "gap")
MADE_UP = "examples"
_PATH = click.Path(readable=False, path_type=Path)

_OPTIONS = (
    click.option("--placement", "placements", multiple=True, help="Of each PLAN, or of all."),
    click.option("--url", "urls", multiple=True, help="A server, as a URL among the targets."),
    click.option(
        "--api",
        type=click.Choice(["speech", "chat"]),
        default="speech",
        show_default=True,
        help="What a server is asked: /v1/audio/speech or /v1/chat/completions.",
    ),
    click.option("--model", default="", help="The model that a server is asked for."),
    click.option(
        "--requests",
        default=MADE_UP,
        show_default=True,
        metavar="FILE",
        help="A mix (.yaml), requests as `mstarc run` takes them (.json), or ones made up.",
    ),
    click.option("--concurrency", metavar="1,4,16", help="Requests at once, in closed waves."),
    click.option("--refill", is_flag=True, help="Begin a request as soon as one has ended."),
    click.option("--rate", metavar="2,4", help="Requests a second, at random times."),
    click.option("--seconds", type=click.FloatRange(min=0, min_open=True), help="Of each load."),
    click.option("--count", type=click.IntRange(1), help="Requests of each load, instead."),
    click.option("--warmup", type=click.IntRange(0), help="Requests before that do not count."),
    click.option("--seed", default=0, show_default=True, help="Of all that is drawn."),
    click.option("--slo", metavar="NAME=MOST,…", help="What counts as good: first_sound=0.5,rtf=1"),
    click.option("--out", type=_PATH, help="All figures and times, as JSON."),
    click.option("--svg", type=_PATH, help="The figures as a picture."),
    click.option("--trace", type=_PATH, help="A timeline for Perfetto or Chrome."),
    click.option("--buckets", metavar="1,4,16", help="Sizes that are captured, of all plans."),
    click.option("--eager", multiple=True, metavar="REGION", help="A region without a graph."),
    click.option("--require-graphs", is_flag=True, help="Do not start without all graphs."),
    click.option("--deterministic/--no-deterministic", default=None, help="As for `run`."),
    click.option("--weights", multiple=True, metavar="NODE=SOURCE", help="Of a node."),
    click.option("--start-timeout", type=click.FloatRange(min=1), help="Seconds to load."),
)


def load_options(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the options of a load; they reach it by name."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def run_bench(targets: Sequence[str], given: Mapping[str, Any], threads: int) -> int:
    """Have the runtime measure the targets; its exit status."""
    sink = DiagnosticSink()
    names = [*targets, *given["urls"]]
    if not names:
        raise click.UsageError("say what to measure: a PLAN, or the URL of a server")
    plans = [name for name in names if not name.startswith(_SERVERS)]
    for plan in plans:
        look_at_plan(Path(plan), sink)
    look_for_packages(sink)
    kinds, file, read = _requests(given["requests"], sink)
    if sink.has_errors:
        attempt = f"measure `{shown_path(Path(plans[0])) if plans else names[0]}`"
        return print_report(combined_report(sink, [], attempt, read), None)
    job = {
        "targets": _targets(names, given),
        "kinds": kinds,
        "file": file,
        "loads": _loads(given),
        "extent": {
            "seconds": given["seconds"],
            "count": given["count"],
            "warm_up": given["warmup"],
        },
        "seed": given["seed"],
        "slo": _bounds(given["slo"]),
        **{name: _absolute(given[name]) for name in ("out", "svg", "trace")},
        "run": _run_settings(given, threads),
    }
    return _measure(job)


def _measure(job: Mapping[str, Any]) -> int:
    process = subprocess.Popen(
        [sys.executable, "-m", "mstarc_runtime.bench"], stdin=subprocess.PIPE, text=True
    )
    try:
        process.communicate(json.dumps(job))
    except KeyboardInterrupt:
        # A terminal tells the whole group; anyone else has told only us.
        process.send_signal(signal.SIGINT)
        process.wait()
        raise
    return process.returncode


def _targets(names: Sequence[str], given: Mapping[str, Any]) -> list[dict[str, Any]]:
    plans = [name for name in names if not name.startswith(_SERVERS)]
    placements = list(given["placements"])
    if len(placements) > 1 and len(plans) == 1:
        # One plan, measured on each.
        at = names.index(plans[0])
        names = [*names[:at], *plans * len(placements), *names[at + 1 :]]
        plans = plans * len(placements)
    if len(placements) not in (0, 1, len(plans)):
        raise click.UsageError(
            f"there are {len(plans)} plans: give --placement once, or once for each"
        )
    chosen = iter(placements if len(placements) > 1 else (placements or [None]) * len(plans))
    found = []
    for name in names:
        if name.startswith(_SERVERS):
            shown = urlsplit(name).netloc
            target = {"name": shown, "url": name, "api": given["api"], "model": given["model"]}
        else:
            placement = next(chosen)
            folder = Path(name).resolve()
            shown = folder.name if placement is None else f"{folder.name}@{placement}"
            target = {"name": shown, "plan": str(folder), "placement": placement}
        found.append(target)
    taken: dict[str, int] = {}
    for target in found:
        count = taken[target["name"]] = taken.get(target["name"], 0) + 1
        if count > 1:
            target["name"] += f"#{count}"
    return found


def _requests(
    name: str, sink: DiagnosticSink
) -> tuple[list[dict[str, Any]], str | None, list[SourceFile]]:
    """The kinds of a mix, or the file of requests; neither where they are made up."""
    if name == MADE_UP:
        return [], None, []
    path = Path(name)
    if path.suffix == ".json":
        return [], str(path.resolve()), []
    source = read_source(path, sink)
    if source is None:
        return [], None, []
    # Loaded here: other ways of asking need no yaml.
    from mstarc.deployment.mix import read_mix

    kinds = read_mix(source, sink) or ()
    if any(kind.passes for kind in kinds):
        progress("note: `passes` of a mix are for simulations: here loops end as they do")
    return (
        [
            {
                "share": kind.share,
                "rows": None if kind.rows is None else [kind.rows.low, kind.rows.high],
                "options": {name: _whole(value) for name, value in kind.options.items()},
                "parts": dict(kind.parts),
                "wants": list(kind.wants),
            }
            for kind in kinds
        ],
        None,
        [source],
    )


def _whole(value: float | bool | str) -> Any:
    """A number as a request would have it: a mix has no others than floats."""
    is_whole = isinstance(value, float) and value.is_integer()
    return int(value) if is_whole else value


def _loads(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    sizes = _numbers("--concurrency", given["concurrency"], whole=True)
    rates = _numbers("--rate", given["rate"], whole=False)
    if not sizes and not rates:
        raise click.UsageError(
            "say how requests come: --concurrency or --rate; or measure ops: --calibrate or --weigh"
        )
    kind = "refill" if given["refill"] else "waves"
    return [
        *({"kind": kind, "size": size} for size in sizes),
        *({"kind": "open", "size": rate} for rate in rates),
    ]


def _numbers(option: str, text: str | None, *, whole: bool) -> list[float]:
    if text is None:
        return []
    try:
        found = [float(int(part)) if whole else float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(0 < number < float("inf") for number in found):
        kind = "whole numbers" if whole else "numbers"
        raise click.UsageError(f"{option} is a list of {kind} above zero, such as `1,4,16`")
    return found


def _bounds(text: str | None) -> dict[str, float]:
    bounds: dict[str, float] = {}
    for part in text.split(",") if text else ():
        name, _, most = part.strip().partition("=")
        try:
            bounds[name] = float(most)
        except ValueError:
            bounds[name] = 0.0
        if name not in _SLO_NAMES or not bounds[name] > 0:
            known = ", ".join(_SLO_NAMES)
            raise click.UsageError(f"--slo is `NAME=MOST`, with a number and one of {known}")
    return bounds


def _run_settings(given: Mapping[str, Any], threads: int) -> dict[str, Any]:
    sources = {}
    for text in given["weights"]:
        node, equals, source = text.partition("=")
        if not equals or not node:
            raise click.UsageError(f"`--weights {text}` is not of the form NODE=SOURCE")
        sources[node] = source
    return {
        "threads": threads,
        "deterministic": given["deterministic"],
        "sources": sources,
        "buckets": [int(n) for n in _numbers("--buckets", given["buckets"], whole=True)],
        "eager": list(given["eager"]),
        "require_graphs": given["require_graphs"],
        "start_timeout": given["start_timeout"],
    }


def _absolute(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())
