"""One function a command, the stages called top to bottom. Read this first.

Text in, text and findings out: files are read and written by `mstarc.cli`. The front half runs for
every command; the back half is imported when a plan is asked for, so that checking a spec loads no
template engine and no graph library.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from mstarc import __version__
from mstarc.diagnostics import Diagnostic, DiagnosticSink, InternalError
from mstarc.given import for_the_spec, front_sizes, with_variant
from mstarc.job import Job as _Job
from mstarc.job import Outcome as Outcome
from mstarc.job import job_of as _job
from mstarc.names import resolve
from mstarc.options import DEPLOYED_KIND, CompileOptions
from mstarc.records import dataclass
from mstarc.source import SourceFile
from mstarc.syntax import ast
from mstarc.syntax.parser import parse
from mstarc.typecheck import check as check_types

if TYPE_CHECKING:
    from mstarc.deployment import Deployment
    from mstarc.deployment.mix import RequestKind
    from mstarc.deployment.settings import GivenSetting
    from mstarc.deployment.sizes import SizesFile
    from mstarc.ir.graph import Program
    from mstarc.lint.select import Selection
    from mstarc.names import Resolved
    from mstarc.passes.context import PassContext
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
    job = _job((spec,), CompileOptions())
    tree = job.run("parse", read, spec, job.sink)
    if tree is None:
        return Inspection(source=spec, diagnostics=job.found())
    if job.sink.has_errors:
        resolved, typed = _check_what_was_read(tree, spec, _Given(), job)
    else:
        resolved = job.run("resolve", resolve, tree, job.sink)
        typed = job.run("check", check_types, resolved, job.sink)
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

    job = _job((inspection.source,), CompileOptions())
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
    job = _job((spec,), CompileOptions())
    _lowered(spec, _Given(), job)
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

    job = _job((spec, *deployments, *sizes), CompileOptions())
    typed = _typed(spec, _Given(), job)
    if typed is None or job.sink.has_errors:
        return job.outcome()
    for file in sizes:
        _lint_sizes(typed, file, job)
    if has_circle(typed):
        job.run("circles", report_circles, typed, job.sink)
    read = _lint_deployments(typed, deployments, job)
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

    job = _job((deployment,), CompileOptions())
    read = job.run("deployment", read_deployment, deployment, job.sink)
    if read is not None:
        report_unknown_model(read, models, job.sink)
    return job.outcome()


def format_spec(spec: SourceFile) -> Outcome:
    """The spec in its canonical form, under its own path."""
    job = _job((spec,), CompileOptions())
    tree = job.run("parse", parse, spec, job.sink)
    if tree is None or job.sink.has_errors:
        return job.outcome()
    return job.outcome({spec.path: job.run("print", _printed, tree, spec)})


def compile_spec(spec: SourceFile, options: CompileOptions) -> Outcome:
    """The plan of a spec, with a placement for each deployment or each set of devices."""
    from mstarc.codegen.emit import render
    from mstarc.codegen.views.reasons import Knowledge
    from mstarc.ir.text import print_program
    from mstarc.passes.pipeline import pass_names
    from mstarc.plan import build_plan

    job = _job((spec, *options.deployments, *_given_files(options)), options)
    sizes = _read_sizes(job)
    targets = _targets(job)
    if not options.deployments:
        _report_unused(options.settings, job.sink)
    program = _lowered(spec, _Given.of(sizes, targets), job)
    if program is None or job.sink.has_errors:
        return job.outcome()
    weighed = _weighed(targets, program, sizes, job)
    placed = [_run_passes(program, target, job) for target in weighed]
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
    source: SourceFile, options: CompileOptions, requests: SourceFile | None, *, keep: int = 5
) -> "Placing | Outcome":
    """The best placement of a spec, or of the `program.mir` of a plan, and those that follow."""
    from mstarc.analysis.memory import limits_of
    from mstarc.analysis.placement.choose import choose
    from mstarc.analysis.placement.mixing import mix_of
    from mstarc.show.placing import Placing

    job = _job((source, *_given_files(options)), options)
    kinds = _read_mix(requests, job)
    read = _placeable(source, job)
    if read is None or job.sink.has_errors:
        return job.outcome()
    program, target = read
    mix = mix_of(program, kinds) if kinds else None
    placed = _run_passes(program, replace(target, mix=mix), job)
    before = _run_passes(program, target, job, stop_after="split-optional-arguments")
    if placed is None or before is None or job.sink.has_errors:
        return job.outcome()
    assert target.devices is not None
    choice = job.run(
        "place",
        choose,
        before,
        target.devices,
        limits_of(None, target.devices.kind),
        objective=target.objective,
        measured=target.weight_bytes,
        profile=target.profile,
        mix=mix,
        keep=keep,
    )
    assert choice is not None, "a program that was placed has nodes"
    return Placing(program=placed, devices=target.devices.name, choice=choice)


def simulate_program(
    source: SourceFile,
    options: CompileOptions,
    requests: SourceFile | None,
    *,
    rate: float,
    seconds: float,
    burst: int | None = None,
    seed: int = 0,
) -> "Simulated | Outcome":
    """How a placement does under load, without running it: `rate` requests a second come.

    With `burst` so many come at once instead, and all are waited for.
    """
    from mstarc.analysis.placement.mixing import mix_of
    from mstarc.plan import build_plan
    from mstarc.simulate.load import Load, simulate

    job = _job((source, *options.deployments, *_given_files(options)), options)
    kinds = _read_mix(requests, job)
    read = _placeable(source, job)
    if read is None or job.sink.has_errors:
        return job.outcome()
    program, target = read
    mix = mix_of(program, kinds) if kinds else None
    placed = _run_passes(program, replace(target, mix=mix), job)
    if placed is None or job.sink.has_errors:
        return job.outcome()
    plan = job.run("plan", build_plan, [placed], source, job.sink, version=__version__)
    if plan is None:
        return job.outcome()
    load = Load(kinds=kinds, rate=rate, seconds=seconds, burst=burst, seed=seed)
    return job.run("simulate", simulate, plan, target, load)


def _placeable(source: SourceFile, job: "_Job") -> "tuple[Program, PassContext] | None":
    """A program before it is placed, and where it is to be placed; none after an error."""
    sizes = _read_sizes(job)
    targets = _targets(job)
    if source.path.endswith(".mir"):
        from mstarc.ir.text import parse_program

        program: Program | None = job.run("parse", parse_program, source.text, source.path)
    else:
        program = _lowered(source, _Given.of(sizes, targets), job)
    if program is None or job.sink.has_errors:
        return None
    weighed = _weighed(targets[:1], program, sizes, job)
    return (program, weighed[0]) if weighed else None


def _read_mix(file: SourceFile | None, job: "_Job") -> "tuple[RequestKind, ...]":
    if file is None:
        return ()
    from mstarc.deployment.mix import read_mix

    return job.run("mix", read_mix, file, job.sink) or ()


def picture_of(
    spec: SourceFile, options: CompileOptions, name: str | None, *, placed: bool
) -> "tuple[Picture, Program] | Outcome":
    """What `show` shows of a spec, and the program that it was made of; or what is wrong.

    `name` is a walk or a machine. With `placed` the passes have run, on the first target.
    """
    from mstarc.show import selected

    job = _job((spec, *options.deployments, *_given_files(options)), options)
    sizes = _read_sizes(job)
    targets = _targets(job) if placed else []
    program = _lowered(spec, _Given.of(sizes, targets), job)
    if program is not None and targets and not job.sink.has_errors:
        weighed = _weighed(targets[:1], program, sizes, job)
        program = _run_passes(program, weighed[0], job) if weighed else None
    if program is None or job.sink.has_errors:
        return job.outcome()
    found = job.run("show", selected, program, name)
    if isinstance(found, Diagnostic):
        job.sink.report(found)
        return job.outcome()
    return found, program


def _printed(tree: ast.Spec, spec: SourceFile) -> str:
    from mstarc.syntax.printer import print_spec  # loaded here: checking prints nothing

    return print_spec(tree, spec)


def _laid_out(plan: object) -> str:
    from pprint import pformat  # loaded here: few look at a plan this way

    return pformat(plan) + "\n"


def check_plan(folder: str, files: Mapping[str, bytes]) -> Outcome:
    """Whether a plan is as it was written; `files` is all that its folder holds."""
    from mstarc.codegen.integrity import check_files

    job = _job((), CompileOptions())
    job.run("check", check_files, folder, files, job.sink)
    return job.outcome()


def stage_names() -> tuple[str, ...]:
    """Every stage and pass that a command may stop after, in order."""
    from mstarc.passes.pipeline import pass_names

    return ("parse", "check", "lower", *pass_names(), "plan")


# The stages


def _lowered(spec: SourceFile, given: "_Given", job: "_Job") -> "Program | None":
    """From text to the IR; none with errors, or where the command goes no further."""
    from mstarc.ir.text import print_program
    from mstarc.lowering import lower

    typed = _typed(spec, given, job)
    if typed is None or job.ends_after("check", lambda: _printed(typed.resolved.spec, spec)):
        return None
    program = job.run("lower", lower, typed)
    return None if job.ends_after("lower", lambda: print_program(program)) else program


def _typed(spec: SourceFile, given: "_Given", job: "_Job") -> "Typed | None":
    """From text to types, perhaps with errors; none where there is nothing to check."""
    tree = job.run("parse", parse, spec, job.sink)
    if tree is not None and job.sink.has_errors and job.options.stop_after != "parse":
        _check_what_was_read(tree, spec, given, job)
    job.tree = tree
    if tree is None or job.ends_after("parse", lambda: _printed(tree, spec)):
        return None
    resolved = job.run("resolve", resolve, tree, job.sink)
    # Types are checked also where names are unknown, so that one run reports both.
    values = front_sizes(given.sizes, given.deployments, resolved, job.sink)
    values = with_variant(values, job.options.variant, resolved, job.sink)
    return job.run("check", check_types, resolved, job.sink, values)


def _check_what_was_read(
    tree: ast.Spec, spec: SourceFile, given: "_Given", job: "_Job"
) -> "tuple[Resolved | None, Typed | None]":
    """After mistakes of syntax: report what is wrong also without what could not be read."""
    from mstarc.syntax.broken import broken_parts

    own = [found for found in job.sink.diagnostics if found.primary.span.path == spec.path]
    broken = broken_parts(spec, tree, own)
    resolved: Resolved | None = None
    typed: Typed | None = None
    sink = DiagnosticSink()
    # A tree with holes may be more than the checker can bear; the holes are reported.
    with suppress(InternalError):
        resolved = job.run("resolve", resolve, tree, sink)
        values = front_sizes(given.sizes, given.deployments, resolved, DiagnosticSink())
        typed = job.run("check", check_types, resolved, sink, values)
    for found in sink.diagnostics:
        if found.primary.span.path == spec.path and not broken.may_cause(found):
            job.sink.report(found)
    return resolved, typed


def _run_passes(
    program: "Program",
    target: "PassContext",
    job: "_Job",
    *,
    start_after: str | None = None,
    stop_after: str | None = None,
) -> "Program | None":
    """The program as it is placed on one target; none after an error."""
    from mstarc.passes.pipeline import pass_names, run_pipeline

    wanted = stop_after or job.options.stop_after
    last = wanted if wanted in pass_names() else None

    def observe(name: str, after: "Program", seconds: float) -> None:
        job.seconds.append((name, seconds))
        if job.options.dump_after == name:
            from mstarc.ir.text import print_program

            job.dump += print_program(after)

    return run_pipeline(program, target, start_after=start_after, stop_after=last, observe=observe)


# What linting looks at besides the spec


def _lint_sizes(typed: "Typed", file: SourceFile, job: "_Job") -> None:
    """Check types once more, with the values of a file of sizes."""
    from mstarc.deployment.sizes import read_sizes

    sizes = job.run("sizes", read_sizes, file, job.sink)
    if sizes is not None:
        resolved = typed.resolved
        values = front_sizes(sizes, (), resolved, job.sink)
        job.run("check", check_types, resolved, job.sink, values, before=typed)


def _lint_deployments(
    typed: "Typed", files: Sequence[SourceFile], job: "_Job"
) -> "tuple[Deployment, ...] | None":
    """The deployments; none with errors. Each is placed, since most mistakes show only then."""
    if not files:
        return None if job.sink.has_errors else ()
    from mstarc.deployment import read_deployment
    from mstarc.lowering import lower
    from mstarc.passes.context import PassContext
    from mstarc.passes.pipeline import BEFORE_PLACEMENT

    program = job.run("lower", lower, typed)
    # The first passes are the same for all of them.
    first = PassContext(sink=DiagnosticSink())
    plain = _run_passes(program, first, job, stop_after=BEFORE_PLACEMENT)
    for found in first.sink.diagnostics:
        job.sink.report(found)
    if plain is None:
        return None
    read = []
    for file in files:
        # Each has a sink of its own: one that is wrong must not keep the next from being seen.
        sink = DiagnosticSink()
        deployment = job.run("deployment", read_deployment, file, sink)
        if deployment is not None:
            read.append(deployment)
            own = _with_values(typed, plain, deployment, sink, job)
            if own is not None:
                context = PassContext(sink=sink, default_kind=DEPLOYED_KIND)
                target = _deployed(context, deployment, own, job)
                begin = BEFORE_PLACEMENT if own is plain else None
                _run_passes(own, target, job, start_after=begin)
        for found in sink.diagnostics:
            job.sink.report(found)
    return None if job.sink.has_errors else tuple(read)


def _with_values(
    typed: "Typed",
    program: "Program",
    deployment: "Deployment",
    sink: DiagnosticSink,
    job: "_Job",
) -> "Program | None":
    """The program with the values of a deployment's `model_kwargs` and variant; none if wrong."""
    from mstarc.lowering import lower

    values = front_sizes(None, (deployment,), typed.resolved, sink)
    if values.variant is None and not values.config:
        return None if sink.has_errors else program
    own = job.run("check", check_types, typed.resolved, sink, values, before=typed)
    return None if sink.has_errors else job.run("lower", lower, own)


def _deployed(
    context: "PassContext", deployment: "Deployment", program: "Program", job: "_Job"
) -> "PassContext":
    """The target of a deployment: by the spec's name of its model; says what decides nothing."""
    from mstarc.deployment.idle import report_idle_settings

    assert job.tree is not None
    report_idle_settings(deployment, program, context.sink)
    return replace(context, deployment=for_the_spec(deployment, job.tree))


# What a compilation is given besides the spec


def _given_files(options: CompileOptions) -> list[SourceFile]:
    found = (options.sizes, options.kinds, options.profile)
    settings = [setting.file for setting in options.settings]
    return [*settings, *(file for file in found if file is not None)]


def _read_sizes(job: "_Job") -> "SizesFile | None":
    if job.options.sizes is None:
        return None
    from mstarc.deployment.sizes import read_sizes

    return job.run("sizes", read_sizes, job.options.sizes, job.sink)


def _report_unused(settings: "Sequence[GivenSetting]", sink: DiagnosticSink) -> None:
    from mstarc.deployment.idle import report_idle

    for setting in settings:
        report_idle(setting.key, setting.span, "it is for deployments, and none is given", sink)


def _targets(job: "_Job") -> "list[PassContext]":
    """Where to place: each deployment, or each set of devices, or one CPU."""
    from mstarc.passes.targets import targets_of

    return job.run("targets", targets_of, job.options, job.sink)


def _weighed(
    found: "list[PassContext]", program: "Program", sizes: "SizesFile | None", job: "_Job"
) -> "list[PassContext]":
    """The targets, with how large the weights of the program are there; none after an error."""
    from mstarc.passes.targets import with_weights

    known = [
        one if (d := one.deployment) is None else _deployed(one, d, program, job) for one in found
    ]
    made = [job.run("weigh", with_weights, one, program, job.options, sizes) for one in known]
    return [] if job.sink.has_errors else made


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """What a compilation is given besides the spec that may change its values."""

    sizes: "SizesFile | None" = None
    deployments: "tuple[Deployment, ...]" = ()

    @staticmethod
    def of(sizes: "SizesFile | None", targets: "Sequence[PassContext]") -> "_Given":
        """A file of sizes, and the deployments among `targets`."""
        found = tuple(t.deployment for t in targets if t.deployment is not None)
        return _Given(sizes=sizes, deployments=found)
