"""The command line of the runtime: execute a plan.

Arguments → requests → answers on the terminal and in files. Exit status 0: all requests were
answered; 1: a request failed or can't be taken; 2: the job could not be done. Texts go to stdout,
everything else to stderr.
"""

import argparse
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from mstarc_runtime.answer import Answer, Target, TextPrinter, make_folder, summary
from mstarc_runtime.assembly import DEFAULT_THREADS, DEFAULT_TILE_ROWS, RunSettings
from mstarc_runtime.conductor import Conductor
from mstarc_runtime.errors import RuntimeFailure, render
from mstarc_runtime.launch import START_TIMEOUT_S, Ranks, launched, run_until_done
from mstarc_runtime.loader import LoadedPlan, PlacementFacts, load_placement, load_plan
from mstarc_runtime.request import Asked, PreparedRequest, prepare, read_request_file
from mstarc_runtime.settings import read_settings
from mstarc_runtime.weights.progress import progress_to

_INTERRUPTED = 130


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise RuntimeFailure(
            "MS9010", message, helps=["`mstarc run --help` shows what can be asked"]
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs and returns the exit status."""
    # A terminal that goes away, or a supervisor that stops us, is as a person who does.
    signal.signal(signal.SIGTERM, _interrupt)
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run(_parse(given))
    except RuntimeFailure as failure:
        say(render(failure))
        return 1 if failure.code.startswith("MS92") else 2
    except KeyboardInterrupt:
        say("interrupted: all processes have ended, and no half file is left")
        return _INTERRUPTED
    except BrokenPipeError:
        return 2
    except Exception:
        traceback.print_exc()
        say("error: the runtime failed, not your plan; the lines above say where")
        return 2


def say(text: str) -> None:
    """A line for people."""
    print(text, file=sys.stderr, flush=True)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = _Parser(prog="mstarc run", description="Execute a plan.")
    parser.add_argument("plan", type=Path, help="the folder that `mstarc compile` wrote")
    parser.add_argument("--placement", metavar="NAME", help="where it runs, e.g. `cpu` or `2xcpu`")
    parser.add_argument("--request", type=Path, metavar="FILE", help="a JSON file of requests")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an input of one request: a text, a path of a recording, or @FILE for a text's file",
    )
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--want", action="append", default=[], metavar="OUTPUT")
    parser.add_argument("--out", type=Path, metavar="PATH", help="a folder, or a .wav file")
    parser.add_argument("--seed", type=int, metavar="N")
    parser.add_argument(
        "--deterministic",
        action=argparse.BooleanOptionalAction,
        help="a request's bytes do not depend on others (the default on CPUs)",
    )
    parser.add_argument("--threads", type=int, default=DEFAULT_THREADS, help="of each rank")
    parser.add_argument(
        "--tile-rows", type=int, default=DEFAULT_TILE_ROWS, help="rows of a deterministic step"
    )
    parser.add_argument(
        "--weights",
        action="append",
        default=[],
        metavar="NODE=SOURCE",
        help="other weights for a node, e.g. `lm=random:7` or `lm=./folder`",
    )
    parser.add_argument("--start-timeout", type=float, default=START_TIMEOUT_S, metavar="SECONDS")
    if arguments[:1] == ["run"]:
        arguments = arguments[1:]
    return parser.parse_args(arguments)


def _run(options: argparse.Namespace) -> int:
    plan = load_plan(options.plan)
    placement = load_placement(plan, _placement_name(plan, options.placement))
    asked = _asked(options)
    if not asked:
        _say_what_it_serves(plan, placement)
        return 0
    prepared = [prepare(plan, one, seed=options.seed) for one in asked]
    for one in prepared:
        one.admit(plan)  # what can't be taken is said before weights are loaded
        for note in one.notes:
            say(f"note: {note}")
    if options.threads < 1 or options.tile_rows < 1:
        raise RuntimeFailure("MS9010", "`--threads` and `--tile-rows` are at least 1")
    settings = RunSettings(
        cache_dir=read_settings().cache_dir,
        deterministic=options.deterministic,
        threads=options.threads,
        tile_rows=options.tile_rows,
        sources=dict(_pair(text, "--weights") for text in options.weights),
    )
    targets = _targets(plan, prepared, options.out)
    with launched(
        plan,
        placement,
        settings=settings,
        progress=progress_to(),
        say=say,
        start_timeout_s=options.start_timeout,
    ) as ranks:
        return _answer(ranks, prepared, targets)


def _answer(ranks: Ranks, prepared: list[PreparedRequest], targets: list[Target]) -> int:
    printer = TextPrinter(sys.stdout)
    answers: list[Answer] = []
    try:
        for one, target in zip(prepared, targets, strict=True):
            name = one.name if len(prepared) > 1 else ""
            answer = Answer(name=name, target=target, printer=printer)
            answers.append(answer)
            number = ranks.conductor.submit(one, answer)
            answer.on_failure = _canceller(ranks.conductor, number)
        run_until_done(ranks)
    except BaseException:
        for answer in answers:
            if answer.ended_s is None:
                answer.abort()
        raise
    status = 0
    for answer in answers:
        if answer.failure is not None:
            head = f"request {answer.name}: " if answer.name else ""
            say(head + render(answer.failure))
            status = max(status, 2 if ranks.conductor.broken or _is_ours(answer.failure) else 1)
            continue
        say(summary(answer))
        for path in answer.written:
            say(f"wrote {path}")
    return status


def _is_ours(failure: RuntimeFailure) -> bool:
    """Whether the job could not be done, rather than the request not be taken."""
    return failure.code in ("MS9002", "MS9003") or failure.code.startswith(("MS91", "MS93"))


def _canceller(conductor: Conductor, number: int) -> Callable[[RuntimeFailure], None]:
    return lambda _: conductor.cancel(number)


def _placement_name(plan: LoadedPlan, given: str | None) -> str:
    if given is not None:
        return given
    if len(plan.placements) == 1 or "cpu" not in plan.placements:
        return plan.placements[0]
    return "cpu"


def _asked(options: argparse.Namespace) -> list[Asked]:
    inputs = {}
    for text in options.input:
        name, value = _pair(text, "--input")
        inputs[name] = {"file": value[1:]} if value.startswith("@") else value
    values = dict(_pair(text, "--option") for text in options.option)
    if options.request is None:
        if not inputs:
            return []
        return [Asked(inputs=inputs, options=values, wants=tuple(options.want))]
    return [
        Asked(
            name=one.name,
            inputs={**one.inputs, **inputs},
            options={**one.options, **values},
            wants=tuple(options.want) or one.wants,
            seed=one.seed,
            folder=one.folder,
        )
        for one in read_request_file(options.request)
    ]


def _pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise RuntimeFailure("MS9010", f"`{option} {text}` is not of the form NAME=VALUE")
    return name, value


def _targets(plan: LoadedPlan, prepared: list[PreparedRequest], out: Path | None) -> list[Target]:
    """Where each request's files go. Fails with MS9003 or MS9010."""
    if out is None:
        if any(output.type.startswith("audio(") for output in plan.outputs):
            say("note: sound is made and not kept; `--out PATH` writes it")
        return [Target() for _ in prepared]
    if out.suffix == ".wav":
        sounds = [o.name for o in plan.outputs if o.type.startswith("audio(")]
        if len(prepared) > 1 or len(sounds) != 1:
            raise RuntimeFailure(
                "MS9010",
                f"`{out}` is one file, and there is more to write",
                notes=[
                    f"{len(prepared)} requests, outputs of sound: {', '.join(sounds) or 'none'}"
                ],
                helps=["name a folder"],
            )
        make_folder(out.parent)
        return [Target(file=out)]
    make_folder(out)
    if len(prepared) == 1:
        return [Target(folder=out)]
    names = [one.name for one in prepared]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise RuntimeFailure("MS9214", f"two requests are named `{sorted(twice)[0]}`")
    return [Target(folder=out / name) for name in names]


def _say_what_it_serves(plan: LoadedPlan, placement: PlacementFacts) -> None:
    def line(what: str, names: list[str]) -> None:
        say(f"  {what:<8}{', '.join(names) or 'none'}")

    say(
        f"{plan.model} on {placement.name}: {placement.ranks} rank(s), at most "
        f"{placement.max_requests} requests at once"
    )
    line("inputs", [f"{i.name}: {i.type}" for i in plan.inputs])
    line("outputs", [f"{o.name}: {o.type}" for o in plan.outputs])
    line("options", [f"{o.name}: {o.type} = {o.default!r}" for o in plan.options])
    say("Give a request with `--input NAME=VALUE` or `--request FILE` to run it once.")
    say("Serving over HTTP is not part of this version.")
