"""Collect `.mirtest` files: a program before and after one pass, named by the folder.

Besides the expected text every case checks that the pass run twice equals once, that the result
prints and parses back to itself, and that toy requests get the same from both programs. The
verifier runs in `run_pass`.
"""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from mstarc.deployment import parse_devices, read_deployment
from mstarc.diagnostics import DiagnosticSink
from mstarc.diagnostics.render import FORMATS, Report
from mstarc.ir.graph import Program
from mstarc.ir.interpret import interpret
from mstarc.ir.text import parse_program, print_program
from mstarc.passes.context import PassContext, PassEntry
from mstarc.passes.pipeline import PIPELINE, run_pass
from mstarc.source import SourceFile
from tests.support.golden import difference
from tests.support.mirfile import MirFile, parse_mirfile, replace_section
from tests.support.requests import requests_for

PROGRAM = "program.mir"
REQUESTS = 10
DEPLOYMENT = "deployment.yaml"


class MirTestFile(pytest.File):
    """One file, one test, named by its title."""

    def collect(self) -> Iterator["MirTest"]:
        case = parse_mirfile(self.path.read_text(encoding="utf-8"))
        yield MirTest.from_parent(self, name=case.title, case=case)


class MirTest(pytest.Item):
    """The pass makes of the program what the file says, and keeps its meaning."""

    def __init__(self, *, case: MirFile, **rest: object) -> None:
        super().__init__(**rest)  # type: ignore[arg-type]  # pytest passes name and parent on
        self.case = case

    def runtest(self) -> None:
        entry = self._pass()
        before = parse_program(self.case.before, PROGRAM)
        context = context_of(self.case)
        after = run_pass(entry, before, context)
        if after is None:
            self._compare("diagnostics", self.case.diagnostics, self._findings(context))
            return
        text = print_program(after, spans=False)
        self._compare("after", self.case.after, text)
        assert print_program(parse_program(text, PROGRAM), spans=False) == text
        twice = run_pass(entry, after, context)
        assert twice == after, "the pass run twice does not equal the pass run once"
        self._compare_meaning(before, after)

    def _compare_meaning(self, before: Program, after: Program) -> None:
        for seed, request in enumerate(requests_for(before, REQUESTS)):
            expected = interpret(before, request)
            order = Random(seed)
            for actual in (interpret(after, request), interpret(after, request, order=order)):
                assert actual.is_same_as(expected), f"the pass changes what {request} gets"

    def _pass(self) -> PassEntry:
        name = self.path.parent.name
        for entry in PIPELINE:
            if entry.name == name:
                return entry
        raise AssertionError(f"no pass is named `{name}`, as the folder is")

    def _findings(self, context: PassContext) -> str:
        texts = {PROGRAM: self.case.before, DEPLOYMENT: self.case.deployment}
        report = Report(
            diagnostics=context.sink.diagnostics,
            sources={
                path: SourceFile(path=path, text=text)
                for path, text in texts.items()
                if text is not None
            },
            attempt="place",
            version="0",
        )
        return FORMATS["human"](report)

    def _compare(self, section: str, expected: str | None, actual: str) -> None:
        if expected == actual:
            return
        if self.config.getoption("update_goldens"):
            text = self.path.read_text(encoding="utf-8")
            self.path.write_text(replace_section(text, section, actual), encoding="utf-8")
            return
        pytest.fail(difference(expected or "", actual, self.path.name), pytrace=False)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, self.name

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None
    ) -> str:
        if isinstance(excinfo.value, pytest.fail.Exception):
            return f"{self.path}\n{excinfo.value.msg}"
        return f"{self.path}\n{super().repr_failure(excinfo)}"


def context_of(case: MirFile) -> PassContext:
    """What a case asks the pass to know. Raises `AssertionError` for options that mean nothing."""
    assert set(case.options) <= {"placement", "graphs"}, f"an unknown option: {case.options}"
    assert case.options.get("graphs", "required") == "required", "graphs: required"
    sink = DiagnosticSink()
    deployment = None
    if case.deployment is not None:
        file = SourceFile(path=DEPLOYMENT, text=case.deployment)
        deployment = read_deployment(file, sink)
        assert deployment is not None, sink.diagnostics
    devices = parse_devices(case.options["placement"]) if "placement" in case.options else None
    return PassContext(
        sink=sink,
        devices=devices,
        deployment=deployment,
        require_graphs="graphs" in case.options,
    )
