"""Break every shipped spec and deployment as a person would, and count what is noticed.

    python benchmarks/mutations.py            # a table, and the mistakes that nobody noticed
    python benchmarks/mutations.py --json

A mistake is *caught* when `mstarc lint` reports something, and *placed* when a label of some
finding is on a broken line (`mutants.Mutant.lines` says which lines these are). Findings that the
file has when it is not broken do not count. The same files give the same mistakes in every run.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from deployment_mutants import deployment_mutants
from mutants import Mutant
from spec_mutants import spec_mutants

from mstarc import driver
from mstarc.diagnostics import Diagnostic, InternalError
from mstarc.lint.select import Selection
from mstarc.resources import specs_folder
from mstarc.source import SourceFile

Lint: TypeAlias = Callable[[SourceFile], driver.Outcome]
Findings: TypeAlias = "Counter[tuple[str, str]]"

PER_KIND = 1
WANTED = 0.95

# Why a mistake of this kind can be one that no tool can see.
REASONS = {
    "other sampling rate": "a spec says the rate nowhere else, so that nothing contradicts it",
    "other number in config": "a checkpoint may have either number",
    "`while` left out": "a loop that always runs to its bound is a model too",
    "other walk": "the other walk takes and gives the same",
    "other node": "the other node has an op of that name that takes and gives the same",
    "other stream": "the other stream carries the same, and has a reader that takes it",
    "arguments swapped": "both have the same type",
    "other dtype": "nothing else in the spec fixes the dtype of this value",
    "other dim": "nothing else in the spec fixes this dim",
    "dim left out": "nothing else in the spec fixes this rank",
    "`emit` left out": "the output has another `emit`",
    "`send` left out": "the stream has another `send`",
    "`run` left out": "the walk is run elsewhere, and gives nothing that is needed",
    "statement left out": "what it sets is set elsewhere, or not needed",
    "other window": "the reader takes windows of any size",
    "effect left out": "an op without it is one too",
    "other medium": "nothing reads what the medium decides",
    "parameter misspelt where declared": "its other use is the same word",
    "rank that no device has": "without `devices` a file's ranks are those that it names",
    "node on two ranks": "two copies of a node are a layout",
    "node left out": "a name that is folded into another node needs no place",
    "length too short": "a comment in the file allows it (MS1025)",
    "more requests than fit": "a comment in the file allows it (MS0624)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one mistake. `codes` are those of new findings."""

    path: str
    mutant: Mutant
    caught: bool
    placed: bool
    codes: tuple[str, ...]


def main() -> None:
    """Run all and print; exits with 1 where less than 95 % are caught and placed."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=_AsWritten)
    arguments.add_argument("--json", action="store_true", help="print one JSON object")
    arguments.add_argument("--per-kind", type=int, default=PER_KIND, metavar="N")
    options = arguments.parse_args()
    started = time.perf_counter()
    outcomes = [*spec_outcomes(options.per_kind), *deployment_outcomes(options.per_kind)]
    seconds = time.perf_counter() - started
    if options.json:
        print(json.dumps(_facts(outcomes, seconds), indent=2))
    else:
        print(_table(outcomes, seconds))
    sys.exit(0 if share(outcomes) >= WANTED else 1)


class _AsWritten(argparse.RawDescriptionHelpFormatter):
    pass


def read(path: Path) -> SourceFile:
    """The file at `path`, under its path from the folder of `specs/`."""
    shown = path.relative_to(specs_folder().parent).as_posix()
    return SourceFile(path=shown, text=path.read_text(encoding="utf-8"))


def spec_outcomes(per_kind: int) -> Iterator[Outcome]:
    """Every shipped spec, broken in every way."""
    for path in sorted(specs_folder().glob("*.mstar")):
        source = read(path)
        known = _keys(driver.lint(source, Selection()).diagnostics)
        for mutant in spec_mutants(source, per_kind):
            broken = SourceFile(path=source.path, text=mutant.text)
            yield _judge(mutant, broken, lambda file: driver.lint(file, Selection()), known)


def deployment_outcomes(per_kind: int) -> Iterator[Outcome]:
    """Every shipped deployment, broken in every way, with the spec of its model."""
    specs = {path.stem: read(path) for path in specs_folder().glob("*.mstar")}
    for path in sorted((specs_folder() / "deployments").glob("*.yaml")):
        source = read(path)
        model = source.text.partition("model: ")[2].split()[0]
        spec = specs[model]

        def lint(file: SourceFile, spec: SourceFile = spec) -> driver.Outcome:
            return driver.lint(spec, Selection(), deployments=(file,))

        known = _keys(lint(source).diagnostics)
        for mutant in deployment_mutants(source, per_kind):
            yield _judge(mutant, SourceFile(path=source.path, text=mutant.text), lint, known)


def _judge(mutant: Mutant, broken: SourceFile, lint: Lint, known: Findings) -> Outcome:
    """What linting the broken text says that it did not say of the text as it was."""
    try:
        found = lint(broken).diagnostics
    except InternalError as error:
        raise SystemExit(f"{broken.path}: {mutant.what}: {error}") from error
    left = Counter(known)
    new: list[Diagnostic] = []
    for diagnostic in found:
        key = (diagnostic.code, diagnostic.message)
        if left[key] > 0:
            left[key] -= 1
        else:
            new.append(diagnostic)
    return Outcome(
        path=broken.path,
        mutant=mutant,
        caught=bool(new),
        placed=any(_is_on(diagnostic, broken, mutant.lines) for diagnostic in new),
        codes=tuple(diagnostic.code for diagnostic in new),
    )


def _is_on(diagnostic: Diagnostic, source: SourceFile, lines: frozenset[int]) -> bool:
    labels = (diagnostic.primary, *diagnostic.labels)
    return any(
        label.span.path == source.path and source.position(label.span.start).line in lines
        for label in labels
    )


def _keys(diagnostics: tuple[Diagnostic, ...]) -> Findings:
    return Counter((diagnostic.code, diagnostic.message) for diagnostic in diagnostics)


def share(outcomes: list[Outcome]) -> float:
    """The share of mistakes that are placed."""
    return sum(outcome.placed for outcome in outcomes) / len(outcomes)


def _table(outcomes: list[Outcome], seconds: float) -> str:
    lines = [f"{'file':44} {'mistakes':>8} {'caught':>7} {'placed':>7} {'share':>7}"]
    for path in dict.fromkeys(outcome.path for outcome in outcomes):
        lines.append(_row(path, [o for o in outcomes if o.path == path]))
    lines += [_row("all", outcomes), "", "by kind, where one was missed:"]
    for kind in sorted({o.mutant.kind for o in outcomes if not o.placed}):
        lines.append(_row(f"  {kind}", [o for o in outcomes if o.mutant.kind == kind]))
    lines += ["", "not caught, or not on the broken line:"]
    for outcome in outcomes:
        if not outcome.placed:
            lines += [
                f"  {outcome.path}:{min(outcome.mutant.lines)}: {outcome.mutant.kind}: "
                f"{outcome.mutant.what}",
                f"      {_why(outcome)}",
            ]
    lines += ["", f"{len(outcomes)} mistakes in {seconds:.1f} s"]
    return "\n".join(lines)


def _row(name: str, outcomes: list[Outcome]) -> str:
    caught = sum(outcome.caught for outcome in outcomes)
    placed = sum(outcome.placed for outcome in outcomes)
    return f"{name:44} {len(outcomes):8} {caught:7} {placed:7} {share(outcomes):7.1%}"


def _why(outcome: Outcome) -> str:
    if outcome.caught:
        return f"reported elsewhere: {', '.join(sorted(set(outcome.codes)))}"
    return REASONS.get(outcome.mutant.kind, "no reason is known")


def _facts(outcomes: list[Outcome], seconds: float) -> dict[str, object]:
    return {
        "mistakes": len(outcomes),
        "caught": sum(outcome.caught for outcome in outcomes),
        "placed": sum(outcome.placed for outcome in outcomes),
        "share": share(outcomes),
        "seconds": seconds,
        "files": {
            path: {
                "mistakes": sum(o.path == path for o in outcomes),
                "caught": sum(o.path == path and o.caught for o in outcomes),
                "placed": sum(o.path == path and o.placed for o in outcomes),
            }
            for path in dict.fromkeys(outcome.path for outcome in outcomes)
        },
        "missed": [
            {
                "file": o.path,
                "line": min(o.mutant.lines),
                "kind": o.mutant.kind,
                "what": o.mutant.what,
                "caught": o.caught,
                "codes": list(o.codes),
                "reason": _why(o),
            }
            for o in outcomes
            if not o.placed
        ],
    }


if __name__ == "__main__":
    main()
