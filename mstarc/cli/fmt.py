"""`mstarc fmt specs/*.mstar`: write specs in the one canonical form."""

import difflib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from mstarc import driver
from mstarc.cli.file_kinds import read_spec
from mstarc.cli.inputs import shown_path
from mstarc.cli.output import EXIT_FINDINGS, combined_report, format_option, print_report, progress
from mstarc.cli.replace import replace_file
from mstarc.diagnostics import DiagnosticSink
from mstarc.source import SourceFile


@click.command("fmt")
@click.argument(
    "specs",
    nargs=-1,
    required=True,
    type=click.Path(readable=False, path_type=Path),
    metavar="PATH...",
)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a file would change.")
@click.option("--diff", is_flag=True, help="Write nothing; show what would change.")
@format_option
def command(specs: tuple[Path, ...], check: bool, diff: bool, output_format: str | None) -> int:
    """Write specs in their canonical form, comments kept. A folder means all below it."""
    sink = DiagnosticSink()
    outcomes = []
    changed = 0
    listed = list(_files(specs))
    for path in listed:
        source = read_spec(path, sink)
        if source is None:
            continue
        outcome = driver.format_spec(source)
        outcomes.append(outcome)
        text = (outcome.files or {}).get(source.path, source.text)
        if text == source.text:
            continue
        changed += 1
        if diff:
            sys.stdout.writelines(_difference(source, text))
        elif check:
            progress(f"would change {source.path}")
        else:
            replace_file(Path(source.path), text, sink)
            progress(f"changed {source.path}")
    what = f"`{shown_path(specs[0])}`" if len(specs) == 1 else f"{len(listed)} specs"
    code = print_report(combined_report(sink, outcomes, f"format {what}"), output_format)
    return code or (EXIT_FINDINGS if changed and (check or diff) else code)


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    """The files themselves, and in folders the specs below them; hidden folders are left out."""
    for path in paths:
        inside = sorted(path.rglob("*.mstar")) if path.is_dir() else []
        shown = [
            file
            for file in inside
            if not any(part.startswith(".") for part in file.relative_to(path).parts)
        ]
        yield from shown or [path]


def _difference(source: SourceFile, text: str) -> list[str]:
    return list(
        difflib.unified_diff(
            source.text.splitlines(keepends=True),
            text.splitlines(keepends=True),
            source.path,
            f"{source.path} (formatted)",
        )
    )
