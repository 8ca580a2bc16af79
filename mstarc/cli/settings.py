"""Options that several commands share, and the files and stages that they name."""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mstarc import driver
from mstarc.analysis.placement.problem import DEFAULT_OBJECTIVE, OBJECTIVES
from mstarc.cli.checkpoints import read_checkpoint
from mstarc.cli.file_kinds import is_other_yaml, read_spec
from mstarc.cli.find_spec import YAML, find_spec
from mstarc.cli.inputs import read_source, shown_path
from mstarc.diagnostics import DiagnosticSink, did_you_mean
from mstarc.options import DEFAULT_PLACEMENT, DEPLOYED_KIND, CompileOptions
from mstarc.source import SourceFile

if TYPE_CHECKING:
    from mstarc.deployment.settings import GivenSetting

Command = TypeVar("Command", bound=Callable[..., Any])


def placement_option(command: Command) -> Command:
    """`--placement`, any number of times."""
    return click.option(
        "--placement",
        "placements",
        multiple=True,
        metavar="DEVICES",
        help="Devices to place on: cpu, 2xcpu, 1xH200 …; may be given again, but with --deployment "
        "only once. [default: cpu]",
    )(command)


def deployment_option(command: Command) -> Command:
    """`--deployment`, any number of times."""
    return click.option(
        "--deployment",
        "deployments",
        multiple=True,
        type=click.Path(readable=False, path_type=Path),
        metavar="FILE",
        help="A deployment file that says where nodes run; may be given again.",
    )(command)


def sizes_option(command: Command) -> Command:
    """`--sizes`."""
    return click.option(
        "--sizes",
        type=click.Path(readable=False, path_type=Path),
        metavar="FILE",
        help="Sizes that replace config values: a .yaml, or a checkpoint's config.json.",
    )(command)


def knowledge_options(command: Command) -> Command:
    """`--devices`, `--profile`, `--checkpoint`: what is known about devices, ops and weights."""
    for option in (
        click.option(
            "--checkpoint",
            "checkpoints",
            multiple=True,
            metavar="[NODE=]FOLDER",
            help="A local checkpoint, whose headers say how large weights are; may be given again.",
        ),
        click.option(
            "--profile",
            type=click.Path(readable=False, path_type=Path),
            metavar="FILE",
            help="What `mstarc bench --calibrate` has measured.",
        ),
        click.option(
            "--devices",
            "kinds",
            type=click.Path(readable=False, path_type=Path),
            metavar="FILE",
            help="Device kinds that the catalogue does not have, or other numbers for its own.",
        ),
    ):
        command = option(command)
    return command


def settings_option(command: Command) -> Command:
    """`--set`, any number of times."""
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="A setting (max_seq_len, kv_cache.page_size) or a config value, above what deployment "
        "files and the environment say; may be given again.",
    )(command)


def _read_sizes(path: Path, sink: DiagnosticSink) -> SourceFile | None:
    source = read_source(path, sink)
    if source is None or path.suffix not in YAML:
        return source
    other = is_other_yaml(path, source.text, "sizes", sink, said="file of sizes")
    return None if other else source


def _given_settings(texts: tuple[str, ...], sink: DiagnosticSink) -> "tuple[GivenSetting, ...]":
    """The settings of the environment, and above them those of the command line."""
    if not texts and not any(name.startswith("MSTARC_") for name in os.environ):
        return ()
    from mstarc.deployment.settings import from_command_line, from_environment

    return (*from_environment(os.environ, sink), *from_command_line(texts, sink))


def objective_option(command: Command) -> Command:
    """`--objective`."""
    return click.option(
        "--objective",
        type=click.Choice(OBJECTIVES),
        help=f"What automatic placement makes best. [default: {DEFAULT_OBJECTIVE}]",
    )(command)


def at_once_option(command: Command) -> Command:
    """`--at-once`."""
    return click.option(
        "--at-once",
        type=click.IntRange(1),
        metavar="N",
        help="Requests that run at once, on all devices together.",
    )(command)


def refuse_idle_search(given: Mapping[str, object], deployments: Iterable[Path]) -> None:
    """End the command where a deployment says what runs where, and an option how to search it."""
    for option, value in given.items():
        if value is not None and (file := next(iter(deployments), None)) is not None:
            raise click.UsageError(
                f"`{shown_path(file)}` says what runs where, and nothing is searched: leave "
                f"{option} out"
            )


def requests_option(command: Command) -> Command:
    """`--requests`."""
    return click.option(
        "--requests",
        type=click.Path(readable=False, path_type=Path),
        metavar="FILE",
        help="What requests look like: sizes of prompts, options, passes of loops.",
    )(command)


def stage_option(*names: str, **settings: Any) -> Callable[[Command], Command]:
    """An option whose value is a stage or a pass."""
    return click.option(*names, metavar="STAGE", callback=_known_stage, **settings)


def _known_stage(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    if value is None or value in (known := driver.stage_names()):
        return value
    nearest = did_you_mean(value, known)
    remedy = f"did you mean `{nearest[0]}`?" if nearest else f"there are {', '.join(known)}"
    raise click.BadParameter(f"there is no stage `{value}`; {remedy}", context, option)


def refuse_specs(deployments: Iterable[Path]) -> None:
    """End the command where a spec is given for a deployment file: read as YAML it misleads."""
    for path in deployments:
        if path.suffix == ".mstar":
            raise click.UsageError(f"`{shown_path(path)}` is a spec, and no deployment file")


def read_inputs(
    spec: Path,
    placements: tuple[str, ...],
    deployments: tuple[Path, ...],
    sizes: Path | None,
    sink: DiagnosticSink,
    *,
    kinds: Path | None = None,
    profile: Path | None = None,
    checkpoints: tuple[str, ...] = (),
    settings: tuple[str, ...] = (),
    programs: bool = False,
) -> tuple[SourceFile, CompileOptions] | None:
    """The spec and what it is compiled with; none when a file could not be read.

    `spec` may be a deployment file: then the spec is that of its model. With `programs` it may be
    the program of a plan.
    """
    if not placements and (devices := os.environ.get("MSTARC_DEVICES")):
        placements = (devices,)
    refuse_specs(deployments)
    given = (spec, *deployments) if spec.suffix in YAML else deployments
    if given and len(placements) > 1:
        raise click.UsageError(
            "with a deployment, --placement says its devices and is given once at most"
        )
    files = [(path, file) for path in given if (file := read_source(path, sink)) is not None]
    read = tuple(file for _, file in files)
    read_it = read_source if programs and spec.suffix == ".mir" else read_spec
    source = read_it(spec, sink) if spec.suffix not in YAML else None
    others = [is_other_yaml(path, file.text, "deployment", sink) for path, file in files]
    if source is None and files and spec.suffix in YAML and not others[0]:
        source = find_spec(files[0][1], spec, sink)
    options = CompileOptions(
        placements=placements,
        deployments=read,
        default_kind=DEPLOYED_KIND if read else DEFAULT_PLACEMENT,
        settings=_given_settings(settings, sink),
        sizes=None if sizes is None else _read_sizes(sizes, sink),
        kinds=None if kinds is None else read_source(kinds, sink),
        profile=None if profile is None else read_source(profile, sink),
        checkpoints=tuple(
            found for text in checkpoints if (found := read_checkpoint(text, sink)) is not None
        ),
    )
    return None if source is None or sink.has_errors else (source, options)
