"""One function a command, the stages called top to bottom. Read this first.

Text in, text and findings out: files are read and written by `mstarc.cli`. The front half runs for
every command; the back half is imported when a plan is asked for, so that checking a spec loads no
template engine and no graph library.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mstarc import __version__
from mstarc.diagnostics import Diagnostic, DiagnosticSink
from mstarc.job import Outcome as Outcome
from mstarc.job import job_of
from mstarc.options import CompileOptions
from mstarc.records import dataclass
from mstarc.source import SourceFile
from mstarc.stages import (
    Given,
    check_names_and_types,
    check_what_was_read,
    check_with_sizes,
    checked,
    given_files,
    given_sizes,
    lowered,
    placeable,
    placed_deployments,
    printed,
    run_passes,
    wanted_targets,
    weighed_targets,
    with_mix,
)
from mstarc.syntax import ast
from mstarc.syntax.parser import parse

if TYPE_CHECKING:
    from mstarc.ir.decisions import Placement
    from mstarc.ir.graph import Program
    from mstarc.lint.select import Selection
    from mstarc.names import Resolved
    from mstarc.show import Picture
    from mstarc.show.placing import Placing
    from mstarc.simulate.result import Simulated
    from mstarc.typecheck import Typed


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What an editor may ask about: all that the front half knows of a text, mistakes or not.

    `tree` lacks what could not be read, and `typed` what could not be checked; they are none where
    nothing could be. `diagnostics` are those of `lint`; comments allow the warnings in `allowed`.
    """

    source: SourceFile
    tree: ast.Spec | None = None
    resolved: "Resolved | None" = None
    typed: "Typed | None" = None
    diagnostics: tuple[Diagnostic, ...]
    allowed: tuple[Diagnostic, ...] = ()


# The commands


def inspect(
    spec: SourceFile,
    *,
    read: Callable[[SourceFile, DiagnosticSink], ast.Spec | None] = parse,
) -> Inspection:
    """A spec as an editor sees it, without opinions.

    `read` is `parse`, or something that gives the same and remembers the text before a change.
    """
    job = job_of((spec,), CompileOptions())
    tree = job.run("parse", read, spec, job.sink)
    if tree is None:
        return Inspection(source=spec, diagnostics=job.found())
    if job.sink.has_errors:
        resolved, typed = check_what_was_read(tree, spec, Given(), job)
    else:
        resolved, typed = check_names_and_types(tree, spec, Given(), job)
    return Inspection(
        source=spec,
        tree=tree,
        resolved=resolved,
        typed=typed,
        diagnostics=(left := job.found()),
        allowed=tuple(found for found in job.sink.diagnostics if found not in left),
    )


def with_opinions(inspection: Inspection, chosen: "Selection") -> Inspection:
    """The same with what the chosen rules find, where there is no error."""
    from mstarc.lint.base import RuleContext
    from mstarc.lint.run import lint_spec

    job = job_of((inspection.source,), CompileOptions())
    for found in inspection.diagnostics:
        job.sink.report(found)
    if inspection.typed is not None and not job.sink.has_errors:
        context = RuleContext(source=inspection.source, typed=inspection.typed)
        warnings = (*inspection.diagnostics, *inspection.allowed)
        for found in job.run("lint", lint_spec, context, chosen, job.sources, warnings):
            job.sink.report(found)
    return replace(inspection, diagnostics=job.found())


def check(spec: SourceFile) -> Outcome:
    """What is wrong in a spec, wherever it may run."""
    job = job_of((spec,), CompileOptions())
    lowered(spec, Given(), job)
    return job.outcome()


def lint(
    spec: SourceFile,
    chosen: "Selection",
    *,
    deployments: Sequence[SourceFile] = (),
    sizes: Sequence[SourceFile] = (),
) -> Outcome:
    """What is wrong in a spec, alone and with each of its files, and what its author may not mean.

    Opinions are given only where there is no error.
    """
    from mstarc.lint.base import RuleContext
    from mstarc.lint.circles import has_circle, report_circles
    from mstarc.lint.run import lint_spec

    job = job_of((spec, *deployments, *sizes), CompileOptions())
    typed = checked(spec, Given(), job)
    if typed is None or job.sink.has_errors:
        return job.outcome()
    for file in sizes:
        check_with_sizes(typed, file, job)
    if has_circle(typed):
        job.run("circles", report_circles, typed, job.sink)
    read = placed_deployments(typed, deployments, job)
    if read is None:
        return job.outcome()
    context = RuleContext(source=spec, typed=typed, deployments=read)
    sources = {file.path: file for file in (spec, *deployments)}
    warnings = job.sink.diagnostics
    for found in job.run("lint", lint_spec, context, chosen, sources, warnings):
        job.sink.report(found)
    return job.outcome()


def lint_deployment(deployment: SourceFile, models: Sequence[str]) -> Outcome:
    """What is wrong in a deployment file whose spec was not found among `models`."""
    from mstarc.deployment import read_deployment
    from mstarc.lint.models import report_unknown_model

    job = job_of((deployment,), CompileOptions())
    read = job.run("deployment", read_deployment, deployment, job.sink)
    if read is not None:
        report_unknown_model(read, models, job.sink)
    return job.outcome()


def lint_sizes(file: SourceFile, models: Sequence[str]) -> Outcome:
    """What is wrong in a file of sizes whose spec was not found among `models`."""
    from mstarc.deployment.sizes import read_sizes
    from mstarc.lint.models import report_unknown_spec

    job = job_of((file,), CompileOptions())
    if job.run("sizes", read_sizes, file, job.sink) is not None:
        report_unknown_spec(file, models, job.sink)
    return job.outcome()


def format_spec(spec: SourceFile) -> Outcome:
    """The spec in its canonical form, under its own path."""
    job = job_of((spec,), CompileOptions())
    tree = job.run("parse", parse, spec, job.sink)
    if tree is None or job.sink.has_errors:
        return job.outcome()
    return job.outcome({spec.path: job.run("print", printed, tree, spec)})


def compile_spec(spec: SourceFile, options: CompileOptions) -> Outcome:
    """The plan of a spec, with a placement for each deployment or each set of devices."""
    from mstarc.codegen.emit import render
    from mstarc.codegen.views.reasons import Knowledge
    from mstarc.ir.text import print_program
    from mstarc.passes.pipeline import pass_names
    from mstarc.plan import build_plan

    job = job_of((spec, *options.deployments, *given_files(options)), options)
    sizes = given_sizes(job)
    targets = wanted_targets(job)
    program = lowered(spec, Given.of(sizes, targets), job)
    if program is None or job.sink.has_errors:
        return job.outcome()
    weighed, _ = with_mix(weighed_targets(targets, program, sizes, job), program, job)
    placed = [run_passes(program, target, job) for target in weighed]
    programs = [found for found in placed if found is not None]
    if job.sink.has_errors or options.stop_after in pass_names():
        return job.outcome()
    plan = job.run(
        "plan",
        build_plan,
        programs,
        spec,
        job.sink,
        version=__version__,
        weights=sizes.weights if sizes is not None else (),
    )
    if plan is None or job.ends_after("plan", lambda: _laid_out(plan)):
        return job.outcome()
    kinds = {kind.name: kind for target in weighed for kind in target.kinds}
    known = Knowledge(kinds=tuple(kinds.values()), profile=weighed[0].profile)
    return job.outcome(job.run("emit", render, plan, mir=print_program(program), known=known))


def place_program(
    source: SourceFile,
    options: CompileOptions,
    requests: SourceFile | None,
    *,
    keep: int = 5,
    at_once: int | None = None,
) -> "Placing | Outcome":
    """The best placement of a spec, or of the `program.mir` of a plan, and those that follow.

    `at_once` requests run on all devices together; None: each copy has as many as it lets in.
    """
    from mstarc.analysis.memory import limits_of
    from mstarc.analysis.placement.choose import choose
    from mstarc.show.placing import Placing

    options = replace(options, requests=requests, at_once=at_once)
    job = job_of((source, *given_files(options)), options)
    read = placeable(source, job)
    if read is None or job.sink.has_errors:
        return job.outcome()
    program, (target,) = read[0], with_mix([read[1]], read[0], job)[0]
    placed = run_passes(program, target, job) if not job.sink.has_errors else None
    before = run_passes(program, target, job, stop_after="split-optional-arguments")
    if placed is None or before is None or job.sink.has_errors:
        return job.outcome()
    assert target.devices is not None
    choice = job.run(
        "place",
        choose,
        before,
        target.devices,
        limits_of(target.numbers, target.devices.kind),
        objective=target.objective,
        measured=target.weight_bytes,
        kept=target.kept_bytes,
        profile=target.profile,
        mix=target.mix,
        keep=keep,
    )
    assert choice is not None, "a program that was placed has nodes"
    return Placing(program=placed, devices=target.devices.name, choice=choice)


def place_plan_again(files: Mapping[str, str], devices: str, spec: SourceFile | None) -> Outcome:
    """The files of a plan with one more placement, made of its `program.mir`.

    `spec` is what it was compiled from, for the line numbers in comments.
    """
    from mstarc.codegen.emit import render
    from mstarc.codegen.further import plan_document_of, sizes_of, with_placement
    from mstarc.ir.text import parse_program
    from mstarc.plan import build_plan

    mir = files["program.mir"]
    options = CompileOptions(placements=(devices,), sizes=sizes_of(files))
    job = job_of(() if spec is None else (spec,), options)
    # Without the spec every line is the first.
    source = spec or SourceFile(path=plan_document_of(files)["spec"], text=" " * len(mir))
    sizes = given_sizes(job)
    program = job.run("parse", parse_program, mir, source.path)
    weighed = weighed_targets(wanted_targets(job)[:1], program, sizes, job)
    placed = run_passes(program, weighed[0], job) if weighed else None
    if placed is None or placed.placement is None or job.sink.has_errors:
        return job.outcome()
    weights = sizes.weights if sizes is not None else ()
    plan = job.run(
        "plan", build_plan, [placed], source, job.sink, version=__version__, weights=weights
    )
    if plan is None:
        return job.outcome()
    made = job.run("emit", render, plan, mir=mir)
    return job.outcome(with_placement(files, made, placed.placement.name, job.sink))


def simulate_program(
    source: SourceFile,
    options: CompileOptions,
    requests: SourceFile | None,
    *,
    rate: float,
    seconds: float,
    burst: int | None = None,
    seed: int = 0,
    known: "Placement | None" = None,
) -> "Simulated | Outcome":
    """How a placement does under load, without running it: `rate` requests a second come.

    With `burst` so many come at once instead, and all are waited for: a placement that is searched
    is for as many. A `known` placement is taken as it is.
    """
    from mstarc.plan import build_plan
    from mstarc.simulate.load import Load, simulate

    options = replace(options, requests=requests, at_once=burst)
    job = job_of((source, *options.deployments, *given_files(options)), options)
    read = placeable(source, job)
    if read is None or job.sink.has_errors:
        return job.outcome()
    program, (found, kinds) = read[0], with_mix([read[1]], read[0], job)
    target = replace(found[0], placement=known)
    placed = run_passes(program, target, job) if not job.sink.has_errors else None
    if placed is None or job.sink.has_errors:
        return job.outcome()
    plan = job.run("plan", build_plan, [placed], source, job.sink, version=__version__)
    if plan is None:
        return job.outcome()
    load = Load(kinds=kinds, rate=rate, seconds=seconds, burst=burst, seed=seed)
    return job.run("simulate", simulate, plan, target, load)


def picture_of(
    spec: SourceFile, options: CompileOptions, name: str | None, *, placed: bool
) -> "tuple[Picture, Program] | Outcome":
    """What `show` shows of a spec, and the program that it was made of; or what is wrong.

    `name` is a walk or a machine. With `placed` the passes have run, on the first target.
    """
    from mstarc.show import selected

    job = job_of((spec, *options.deployments, *given_files(options)), options)
    sizes = given_sizes(job)
    targets = wanted_targets(job) if placed else []
    program = lowered(spec, Given.of(sizes, targets), job)
    if program is not None and targets and not job.sink.has_errors:
        weighed = weighed_targets(targets[:1], program, sizes, job)
        program = run_passes(program, weighed[0], job) if weighed else None
    if program is None or job.sink.has_errors:
        return job.outcome()
    found = job.run("show", selected, program, name)
    if isinstance(found, Diagnostic):
        job.sink.report(found)
        return job.outcome()
    return found, program


def _laid_out(plan: object) -> str:
    from pprint import pformat  # loaded here: few look at a plan this way

    return pformat(plan) + "\n"


def check_plan(folder: str, files: Mapping[str, bytes]) -> Outcome:
    """Whether a plan is as it was written; `files` is all that its folder holds."""
    from mstarc.codegen.integrity import check_files

    job = job_of((), CompileOptions())
    job.run("check", check_files, folder, files, job.sink)
    return job.outcome()


def stage_names() -> tuple[str, ...]:
    """Every stage and pass that a command may stop after, in order."""
    from mstarc.passes.pipeline import pass_names

    return ("parse", "check", "lower", *pass_names(), "plan")
