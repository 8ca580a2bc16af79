"""One function a command, the stages called top to bottom. Read this first.

Text in, text and findings out: files are read and written by `mstarc.cli`. The front half runs for
every command; the back half is imported when a plan is asked for, so that checking a spec loads no
template engine and no graph library.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import ParamSpec, TypeVar

from mstarc.diagnostics import Diagnostic, DiagnosticSink, InternalError
from mstarc.names import Resolved, resolve
from mstarc.options import CompileOptions
from mstarc.source import SourceFile
from mstarc.syntax.parser import parse
from mstarc.syntax.printer import print_spec

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a command.

    `files` are the plan's, by path inside its folder; none when there were errors or the command
    makes no plan. `dump` is the text of the stage that was asked for; `seconds` are per stage.
    """

    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, SourceFile]
    files: Mapping[str, str] | None = None
    dump: str = ""
    seconds: tuple[tuple[str, float], ...] = ()


@dataclass(slots=True)
class _Job:
    """What the stages of one command share: where to report, what to show, when to stop."""

    options: CompileOptions
    sources: Mapping[str, SourceFile]
    sink: DiagnosticSink = field(default_factory=DiagnosticSink)
    dump: str = ""
    seconds: list[tuple[str, float]] = field(default_factory=list)

    def run(
        self,
        stage: str,
        function: Callable[Parameters, Result],
        *arguments: Parameters.args,
        **settings: Parameters.kwargs,
    ) -> Result:
        """What a stage gives. Whatever it raises is a mistake of ours, and says which stage."""
        started = perf_counter()
        try:
            result = function(*arguments, **settings)
        except InternalError:
            raise
        except Exception as error:
            raise InternalError(str(error), stage=stage) from error
        self.seconds.append((stage, perf_counter() - started))
        return result

    def ends_after(self, stage: str, show: Callable[[], str]) -> bool:
        """Whether `stage` is the last one, by wish or because of errors; keeps its dump."""
        if self.options.dump_after == stage and not self.sink.has_errors:
            self.dump = show()
        return self.sink.has_errors or self.options.stop_after == stage

    def outcome(self, files: Mapping[str, str] | None = None) -> Outcome:
        return Outcome(
            diagnostics=self.sink.diagnostics,
            sources=self.sources,
            files=None if self.sink.has_errors else files,
            dump=self.dump,
            seconds=tuple(self.seconds),
        )


def check(spec: SourceFile) -> Outcome:
    """What is wrong in a spec, wherever it may run."""
    job = _job((spec,), CompileOptions())
    _front_half(spec, job)
    return job.outcome()


def format_spec(spec: SourceFile) -> Outcome:
    """The spec in its canonical form, under its own path."""
    job = _job((spec,), CompileOptions())
    tree = job.run("parse", parse, spec, job.sink)
    if tree is None or job.sink.has_errors:
        return job.outcome()
    return job.outcome({spec.path: job.run("print", print_spec, tree, spec)})


def compile_spec(spec: SourceFile, options: CompileOptions) -> Outcome:
    """The front half's findings."""
    job = _job((spec,), options)
    _front_half(spec, job)
    return job.outcome()


def check_plan(folder: str, files: Mapping[str, bytes]) -> Outcome:
    """Whether a plan is as it was written; `files` is all that its folder holds."""
    from mstarc.codegen.integrity import check_files

    job = _job((), CompileOptions())
    job.run("check", check_files, folder, files, job.sink)
    return job.outcome()


def stage_names() -> tuple[str, ...]:
    """Every stage and pass that a command may stop after, in order."""
    from mstarc.passes.pipeline import pass_names

    return ("parse", "resolve", *pass_names())


def _job(sources: Iterable[SourceFile], options: CompileOptions) -> _Job:
    return _Job(options=options, sources={source.path: source for source in sources})


def _front_half(spec: SourceFile, job: _Job) -> Resolved | None:
    tree = job.run("parse", parse, spec, job.sink)
    if job.ends_after("parse", lambda: repr(tree)) or tree is None:
        return None
    resolved = job.run("resolve", resolve, tree, job.sink)
    if job.ends_after("resolve", lambda: repr(resolved)):
        return None
    return resolved
