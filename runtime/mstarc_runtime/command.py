"""The command line of the runtime: execute a plan.

Arguments → requests → answers on the terminal and in files. Exit status 0: all requests were
answered; 1: a request failed or can't be taken; 2: the job could not be done. Texts go to stdout,
everything else to stderr.
"""

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from mstarc_runtime.answer import Answer, Target, TextPrinter, make_folder, summary
from mstarc_runtime.arguments import names_and_values, parse_arguments
from mstarc_runtime.assembly import RunSettings
from mstarc_runtime.conductor import Conductor
from mstarc_runtime.errors import RuntimeFailure, render
from mstarc_runtime.how_it_ran import bucket_notes, tell_how_it_ran
from mstarc_runtime.launch import Ranks, launched, run_until_done
from mstarc_runtime.loader import (
    LoadedPlan,
    PlacementFacts,
    load_placement,
    load_plan,
    usual_placement,
)
from mstarc_runtime.request import Asked, PreparedRequest, prepare, read_request_file
from mstarc_runtime.settings import read_settings
from mstarc_runtime.weights.progress import progress_to

_INTERRUPTED = 130
# A terminal that goes away, or a supervisor that stops us, is as a person who does.
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs and returns the exit status."""
    for number in _ENDING:
        signal.signal(number, _interrupt)
    try:
        return _run(parse_arguments(sys.argv[1:] if arguments is None else arguments))
    except RuntimeFailure as failure:
        say(render(failure))
        return _status(failure)
    except KeyboardInterrupt:
        say("interrupted: all processes have ended, and no half file is left")
        return _INTERRUPTED
    except Exception:
        with suppress(OSError):
            traceback.print_exc()
        say("error: the runtime failed, not your plan; the lines above say where")
        return 2


def say(text: str) -> None:
    """A line for people. Where nobody can read it, the work goes on."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    # A second Ctrl-C must not stop what cleans up after the first.
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _run(options: argparse.Namespace) -> int:
    plan = load_plan(options.plan)
    placement = load_placement(plan, options.placement or usual_placement(plan))
    asked = _asked(options)
    if not asked:
        _say_what_it_serves(plan, placement)
        return 0
    prepared = [prepare(plan, one, seed=options.seed) for one in asked]
    for one in prepared:
        one.admit(plan)  # what can't be taken is said before weights are loaded
        for note in one.notes:
            say(f"note: {note}")
    settings = run_settings(options, plan, placement, trace=options.trace is not None)
    for note in bucket_notes(options.buckets, placement.max_requests):
        say(note)
    targets = _targets(plan, prepared, options.out)
    with (
        _folders_for(targets),
        launched(
            plan,
            placement,
            settings=settings,
            progress=progress_to(),
            say=say,
            start_timeout_s=options.start_timeout,
        ) as ranks,
    ):
        images = frozenset(out.name for out in plan.outputs if out.type == "image")
        status = _answer(ranks, prepared, targets, images)
        tell_how_it_ran(ranks, options.trace, say)
        return status


def run_settings(
    options: argparse.Namespace, plan: LoadedPlan, placement: PlacementFacts, *, trace: bool = False
) -> RunSettings:
    """What words of the command line say of how ranks run. Fails with MS9001 or MS9010."""
    sources = names_and_values(options.weights, "--weights")
    for name in sources:
        plan.check_node(name)
    for region in options.eager:
        placement.check_region(region)
    return RunSettings(
        cache_dir=read_settings().cache_dir,
        deterministic=options.deterministic,
        threads=options.threads,
        tile_rows=options.tile_rows,
        high_water_mark=options.high_water_mark,
        sources=sources,
        buckets=options.buckets,
        eager=options.eager,
        require_graphs=options.require_graphs,
        share_prompts=options.share_prompts,
        cascade=options.cascade,
        streams=options.streams,
        joins=options.joins,
        trace=trace,
    )


def _answer(
    ranks: Ranks,
    prepared: list[PreparedRequest],
    targets: list[Target],
    images: frozenset[str],
) -> int:
    printer = TextPrinter(sys.stdout)
    answers: list[Answer] = []
    try:
        for one, target in zip(prepared, targets, strict=True):
            name = one.name if len(prepared) > 1 else ""
            answer = Answer(name=name, target=target, printer=printer, images=images)
            answers.append(answer)
            number = ranks.conductor.submit(one, answer)
            answer.on_failure = _canceller(ranks.conductor, number)
        run_until_done(ranks)
    except BaseException:
        for answer in answers:
            if answer.ended_s is None:
                answer.abort()
        raise
    _say_how_they_ended(answers, prepared)
    return max(0 if answer.failure is None else _status(answer.failure) for answer in answers)


def _say_how_they_ended(answers: list[Answer], prepared: list[PreparedRequest]) -> None:
    failed: dict[str, list[str]] = {}
    for answer, one in zip(answers, prepared, strict=True):
        if answer.failure is not None:
            failed.setdefault(render(answer.failure), []).append(answer.name)
            continue
        say(summary(answer))
        for output in sorted(one.wants - answer.outputs):
            say(f"note: `{output}` is empty")
        for path in answer.written:
            say(f"wrote {path}")
    for text, names in failed.items():
        say(f"{'; '.join(f'request {name}' for name in names)}: {text}" if names[0] else text)


def _status(failure: RuntimeFailure) -> int:
    """1: a request can't be taken. 2: the job could not be done, a file can't be read, say."""
    return 1 if failure.code.startswith("MS92") and failure.code != "MS9201" else 2


def _canceller(conductor: Conductor, number: int) -> Callable[[RuntimeFailure], None]:
    return lambda _: conductor.cancel(number)


def _asked(options: argparse.Namespace) -> list[Asked]:
    inputs = {
        name: {"file": value[1:]} if value.startswith("@") else value
        for name, value in names_and_values(options.input, "--input").items()
    }
    values = names_and_values(options.option, "--option")
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


def _targets(plan: LoadedPlan, prepared: list[PreparedRequest], out: Path | None) -> list[Target]:
    """Where each request's files go. Fails with MS9010 or MS9214."""
    if out is None:
        if any(output.type.startswith("audio(") for output in plan.outputs):
            say("note: sound is made and not kept; `--out PATH` writes it")
        return [Target() for _ in prepared]
    if out.suffix == ".wav" and not os.path.isdir(out):
        sounds = [o.name for o in plan.outputs if o.type.startswith("audio(")]
        if len(prepared) > 1 or len(sounds) != 1:
            raise RuntimeFailure(
                "MS9010",
                f"`{out}` is one file, and there is more to write",
                notes=[
                    f"requests: {len(prepared)}, outputs of sound: {', '.join(sounds) or 'none'}"
                ],
                helps=["name a folder"],
            )
        return [Target(file=out)]
    if len(prepared) == 1:
        return [Target(folder=out)]
    names = [one.name for one in prepared]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise RuntimeFailure("MS9214", f"two requests are named `{sorted(twice)[0]}`")
    return [Target(folder=out / name) for name in names]


@contextmanager
def _folders_for(targets: list[Target]) -> Iterator[None]:
    """Makes the folders of answers; afterwards those of them that stayed empty are gone.

    Fails with MS9002 or MS9003.
    """
    folders = [target.inside for target in targets if target.inside is not None]
    # Not `Path.exists`, which raises where one may not look.
    around = {parent for folder in folders for parent in (folder, *folder.parents)}
    made = [folder for folder in sorted(around, reverse=True) if not os.path.exists(folder)]
    try:
        for folder in folders:
            make_folder(folder)
        yield
    finally:
        for folder in made:
            with suppress(OSError):
                folder.rmdir()


def _say_what_it_serves(plan: LoadedPlan, placement: PlacementFacts) -> None:
    def line(what: str, names: list[str]) -> None:
        say(f"  {what:<8}{', '.join(names) or 'none'}")

    count = len(placement.processes)
    ranks = "1 rank" if count == 1 else f"{count} ranks"
    most = placement.max_requests
    say(f"{plan.model} on {placement.name}: {ranks}, at most {most} requests at once")
    line("inputs", [f"{i.name}: {i.type}" for i in plan.inputs])
    line("outputs", [f"{o.name}: {o.type}" for o in plan.outputs])
    line("options", [f"{o.name}: {o.type} = {o.default!r}" for o in plan.options])
    say("Give a request with `--input NAME=VALUE` or `--request FILE` to run it once.")
    say("`mstarc serve` takes requests over HTTP.")
