"""`mstarc lint specs/`: errors, and opinions that can be turned off."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from mstarc import driver
from mstarc.cli.in_processes import mapped
from mstarc.cli.inputs import shown_path
from mstarc.cli.lint_files import LintFiles, SpecFiles, find_files, models_near
from mstarc.cli.output import (
    EXIT_FINDINGS,
    EXIT_OK,
    combined_report,
    format_option,
    print_report,
    progress,
)
from mstarc.cli.replace import replace_file
from mstarc.diagnostics import CATALOG, DiagnosticSink
from mstarc.lint.fixes import apply_fixes
from mstarc.lint.select import Selection, selection, unknown_words
from mstarc.source import SourceFile

MOST_ROUNDS = 10
"""A fix may make room for another; more rounds than this would be a circle."""


def _words(context: click.Context, option: click.Parameter, values: Sequence[str]) -> list[str]:
    """The words of an option that may be given again and holds several, each one known."""
    words = [word for value in values for word in value.replace(",", " ").split()]
    for word, near in unknown_words(words).items():
        remedy = (
            f"did you mean `{near[0]}`?" if near else "a code, a name, a group, `MS10` or `all`"
        )
        raise click.BadParameter(f"no lint is meant by `{word}`; {remedy}", context, option)
    return words


def _explain(context: click.Context, _option: click.Parameter, code: str | None) -> None:
    """`--explain CODE` is `mstarc explain CODE`, and nothing else is done."""
    if code is None:
        return
    from mstarc.cli import explain

    context.exit(context.invoke(explain.command, code=code, page_format="markdown"))


@click.command("lint")
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    type=click.Path(readable=False, path_type=Path),
    metavar="PATH...",
)
@click.option("--select", multiple=True, callback=_words, metavar="LINTS", help="Run only these.")
@click.option("--ignore", multiple=True, callback=_words, metavar="LINTS", help="Leave these out.")
@click.option("--deny", multiple=True, callback=_words, metavar="LINTS", help="Fail on these.")
@click.option("--fix", is_flag=True, help="Make the changes that are safe.")
@click.option("--unsafe-fixes", is_flag=True, help="Make also those that may change the meaning.")
@click.option("--diff", is_flag=True, help="Show the changes and write nothing.")
@click.option(
    "--explain",
    callback=_explain,
    expose_value=False,
    is_eager=True,
    metavar="CODE",
    help="Print the page of CODE, and do nothing else.",
)
@click.option("--exit-zero", is_flag=True, help="Exit with 0 also when there are findings.")
@format_option
def command(
    paths: tuple[Path, ...],
    select: list[str],
    ignore: list[str],
    deny: list[str],
    fix: bool,
    unsafe_fixes: bool,
    diff: bool,
    exit_zero: bool,
    output_format: str | None,
) -> int:
    """Report what is wrong, unused, late or odd in specs and deployments.

    A folder means all of both below it. LINTS are codes (MS1003), names (unused-node), groups
    (correctness, latency, memory, style), beginnings of codes (MS10) or `all`.
    """
    chosen = selection(select, ignore, deny)
    sink = DiagnosticSink()
    files = find_files(paths, sink)
    outcomes = _lint(files, chosen)
    if fix or unsafe_fixes or diff:
        before = dict(_named_sources(files))
        outcomes, count = _fix(files, outcomes, chosen, unsafe=unsafe_fixes)
        changes = [
            (before[path], source)
            for path, source in _named_sources(files).items()
            if source.text != before[path].text
        ]
        if diff:
            # What is shown is a patch, and findings in it would break it.
            sys.stdout.writelines(line for old, new in changes for line in _difference(old, new))
            return EXIT_FINDINGS if changes and not exit_zero else EXIT_OK
        for _, new in changes:
            replace_file(Path(new.path), new.text, sink)
        if count:
            progress(f"made {count} {'change' if count == 1 else 'changes'}")
    what = f"`{shown_path(paths[0])}`" if len(paths) == 1 else f"{len(paths)} paths"
    report = replace(combined_report(sink, outcomes, f"accept {what}"), denied=chosen.denied)
    code = print_report(report, output_format)
    if not report.diagnostics:
        progress(f"{_what_was_read(files)}: nothing to report")
    unable = {found.code for found in report.diagnostics if found.code.startswith("MS00")}
    if unable == {"MS0009"}:
        code = EXIT_FINDINGS  # a file of sizes is one of those that are linted here
    return EXIT_OK if exit_zero and code == EXIT_FINDINGS else code


def _what_was_read(files: LintFiles) -> str:
    """How many files of each kind, so that a folder with none in it is noticed."""
    counts = (
        (len(files.specs), "spec", "specs"),
        (sum(len(entry.deployments) for entry in files.specs), "deployment", "deployments"),
        (sum(len(entry.sizes) for entry in files.specs), "file of sizes", "files of sizes"),
    )
    words = [f"{count} {one if count == 1 else more}" for count, one, more in counts if count]
    return ", ".join(words) or "no specs and no deployments"


def _lint(files: LintFiles, chosen: Selection) -> list[driver.Outcome]:
    weights = [_weight(entry) for entry in files.specs]
    # The lightest spec that is placed: it loads what the others need.
    placed = [index for index, entry in enumerate(files.specs) if entry.deployments]
    outcomes = mapped(
        lambda entry: _lint_spec(entry, chosen),
        files.specs,
        weights,
        first=min(placed, key=weights.__getitem__, default=0),
    )
    outcomes += [
        driver.lint_deployment(source, [*files.models, *models_near(Path(source.path))])
        for source in files.alone
    ]
    outcomes += [driver.lint_sizes(source, files.models) for source in files.sizes_alone]
    return outcomes


def _weight(entry: SpecFiles) -> float:
    """How long a spec takes, roughly: it is checked anew with each file of sizes."""
    return len(entry.spec.text) * (1 + 0.6 * len(entry.sizes) + 0.3 * len(entry.deployments))


def _lint_spec(entry: SpecFiles, chosen: Selection) -> driver.Outcome:
    outcome = driver.lint(entry.spec, chosen, deployments=entry.deployments, sizes=entry.sizes)
    if entry.named:
        return outcome
    # A deployment was named, and its spec was not: only what keeps it from being placed counts.
    return replace(
        outcome,
        diagnostics=tuple(
            found
            for found in outcome.diagnostics
            if found.primary.span.path != entry.spec.path or CATALOG[found.code].severity == "error"
        ),
    )


def _fix(
    files: LintFiles, outcomes: list[driver.Outcome], chosen: Selection, *, unsafe: bool
) -> tuple[list[driver.Outcome], int]:
    """Apply fixes to the texts in `files` until nothing more can be; what is found then."""
    count = 0
    for _ in range(MOST_ROUNDS):
        sources = _named_sources(files)
        findings = [found for outcome in outcomes for found in outcome.diagnostics]
        fixed = apply_fixes(findings, sources, unsafe=unsafe)
        if not fixed.count:
            break
        count += fixed.count
        _put(files, {path: SourceFile(path=path, text=text) for path, text in fixed.texts.items()})
        outcomes = _lint(files, chosen)
    return outcomes, count


def _named_sources(files: LintFiles) -> dict[str, SourceFile]:
    """All that may be changed: what the command line names."""
    sources = [*files.alone, *files.sizes_alone]
    for entry in files.specs:
        sources += [*([entry.spec] if entry.named else []), *entry.deployments, *entry.sizes]
    return {source.path: source for source in sources}


def _put(files: LintFiles, changed: Mapping[str, SourceFile]) -> None:
    files.alone = [changed.get(source.path, source) for source in files.alone]
    files.sizes_alone = [changed.get(source.path, source) for source in files.sizes_alone]
    for entry in files.specs:
        entry.spec = changed.get(entry.spec.path, entry.spec)
        entry.deployments = [changed.get(source.path, source) for source in entry.deployments]
        entry.sizes = [changed.get(source.path, source) for source in entry.sizes]


def _difference(old: SourceFile, new: SourceFile) -> list[str]:
    import difflib  # loaded here: most runs change nothing

    return list(
        difflib.unified_diff(
            old.text.splitlines(keepends=True),
            new.text.splitlines(keepends=True),
            old.path,
            f"{old.path} (fixed)",
        )
    )
