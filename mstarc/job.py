"""What a command and its stages share, and what comes of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from time import perf_counter
from typing import ParamSpec, TypeVar

from mstarc.diagnostics import Diagnostic, DiagnosticSink, InternalError
from mstarc.options import CompileOptions
from mstarc.records import dataclass
from mstarc.source import SourceFile
from mstarc.syntax import ast

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a command.

    `files` are what the command would write, by path (of a plan: inside its folder); none when
    there were errors. `dump` is the text of the stage that was asked for; `seconds` are per stage.
    """

    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, SourceFile]
    files: Mapping[str, str] | None = None
    dump: str = ""
    seconds: tuple[tuple[str, float], ...] = ()


@dataclass(slots=True)
class Job:
    """What the stages of one command share: where to report, what to show, when to stop."""

    options: CompileOptions
    sources: Mapping[str, SourceFile]
    sink: DiagnosticSink = field(default_factory=DiagnosticSink)
    tree: ast.Spec | None = None
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

    def found(self) -> tuple[Diagnostic, ...]:
        """What was found so far and no comment allows."""
        findings = self.sink.diagnostics
        if not findings:
            return ()
        from mstarc.lint.comments import without_allowed

        return without_allowed(findings, self.sources)

    def outcome(self, files: Mapping[str, str] | None = None) -> Outcome:
        """What came of it so far; `files` only if nothing was wrong."""
        return Outcome(
            diagnostics=self.found(),
            sources=self.sources,
            files=None if self.sink.has_errors else files,
            dump=self.dump,
            seconds=tuple(self.seconds),
        )


def job_of(sources: Sequence[SourceFile], options: CompileOptions) -> Job:
    """The job of a command on these texts."""
    return Job(options=options, sources={source.path: source for source in sources})
