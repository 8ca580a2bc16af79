"""What several commands do alike: from text to the IR, and from there to each target.

Every function takes the `Job` of its command, reports to its sink and gives none where the command
goes no further. What a compilation is given besides the spec (sizes, deployments, settings, kinds
of requests) is read here too.

Not here: which stages a command runs, and in which order (`driver`).
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from mstarc.diagnostics import DiagnosticSink, InternalError
from mstarc.given import for_the_spec, front_sizes, with_variant
from mstarc.job import Job
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
    from mstarc.deployment.sizes import SizesFile
    from mstarc.ir.graph import Program
    from mstarc.names import Resolved
    from mstarc.passes.context import PassContext
    from mstarc.typecheck import Typed


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a compilation is given besides the spec that may change its values."""

    sizes: "SizesFile | None" = None
    deployments: "tuple[Deployment, ...]" = ()

    @staticmethod
    def of(sizes: "SizesFile | None", targets: "Sequence[PassContext]") -> "Given":
        """A file of sizes, and the deployments among `targets`, or the settings without one."""
        found = tuple(t.deployment for t in targets if t.deployment is not None)
        if not found and targets and targets[0].settings is not None:
            found = (targets[0].settings,)
        return Given(sizes=sizes, deployments=found)


def lowered(spec: SourceFile, given: Given, job: Job) -> "Program | None":
    """From text to the IR; none with errors, or where the command goes no further."""
    from mstarc.ir.text import print_program
    from mstarc.lowering import lower

    typed = checked(spec, given, job)
    if typed is None or job.ends_after("check", lambda: printed(typed.resolved.spec, spec)):
        return None
    program = job.run("lower", lower, typed)
    return None if job.ends_after("lower", lambda: print_program(program)) else program


def checked(spec: SourceFile, given: Given, job: Job) -> "Typed | None":
    """From text to types, perhaps with errors; none where there is nothing to check."""
    tree = job.run("parse", parse, spec, job.sink)
    if tree is not None and job.sink.has_errors and job.options.stop_after != "parse":
        check_what_was_read(tree, spec, given, job)
    job.tree = tree
    if tree is None or job.ends_after("parse", lambda: printed(tree, spec)):
        return None
    return check_names_and_types(tree, spec, given, job, fold=True)[1]


def check_names_and_types(
    tree: ast.Spec, spec: SourceFile, given: Given, job: Job, *, fold: bool = False
) -> "tuple[Resolved, Typed]":
    """A whole tree with its names and types, perhaps with errors: those that are one, as one."""
    found = DiagnosticSink()
    resolved = job.run("resolve", resolve, tree, found)
    # Types are checked also where names are unknown, so that one run reports both.
    values = front_sizes(given.sizes, given.deployments, resolved, found)
    values = with_variant(values, job.options.variant, resolved, found)
    typed = job.run("check", check_types, resolved, found, values)
    findings = found.diagnostics
    if any(finding.code == "MS0201" for finding in findings):
        # Imported where it is needed, as few specs give a name twice.
        from mstarc.syntax.doubled import without_consequences

        findings = without_consequences(spec, tree, findings)
    if fold and len(findings) > 1:
        from mstarc.diagnostics.folding import folded

        findings = tuple(folded(findings))
    for finding in findings:
        job.sink.report(finding)
    return resolved, typed


def check_what_was_read(
    tree: ast.Spec, spec: SourceFile, given: Given, job: "Job"
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


def run_passes(
    program: "Program",
    target: "PassContext",
    job: Job,
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


def placeable(source: SourceFile, job: Job) -> "tuple[Program, PassContext] | None":
    """A program before it is placed, and where it is to be placed; none after an error."""
    sizes = given_sizes(job)
    targets = wanted_targets(job)
    if source.path.endswith(".mir"):
        from mstarc.ir.text import parse_program

        program: Program | None = job.run("parse", parse_program, source.text, source.path)
    else:
        program = lowered(source, Given.of(sizes, targets), job)
    if program is None or job.sink.has_errors:
        return None
    weighed = weighed_targets(targets[:1], program, sizes, job)
    return (program, weighed[0]) if weighed else None


def printed(tree: ast.Spec, spec: SourceFile) -> str:
    from mstarc.syntax.printer import print_spec  # loaded here: checking prints nothing

    return print_spec(tree, spec)


# What a compilation is given besides the spec


def given_files(options: CompileOptions) -> list[SourceFile]:
    found = (options.sizes, options.kinds, options.profile, options.requests)
    settings = [setting.file for setting in options.settings]
    return [*settings, *(file for file in found if file is not None)]


def given_sizes(job: Job) -> "SizesFile | None":
    if job.options.sizes is None:
        return None
    from mstarc.deployment.sizes import read_sizes

    return job.run("sizes", read_sizes, job.options.sizes, job.sink)


def wanted_targets(job: Job) -> "list[PassContext]":
    """Where to place: each deployment, or each set of devices, or one CPU."""
    from mstarc.passes.targets import targets_of

    return job.run("targets", targets_of, job.options, job.sink)


def weighed_targets(
    found: "list[PassContext]", program: "Program", sizes: "SizesFile | None", job: "Job"
) -> "list[PassContext]":
    """The targets, with how large the weights of the program are there; none after an error."""
    from mstarc.passes.targets import with_weights

    known = [
        one if (d := one.deployment) is None else deployed(one, d, program, job) for one in found
    ]
    if found and found[0].settings is not None:
        from mstarc.deployment.idle import report_idle_settings

        report_idle_settings(found[0].settings, program, job.sink)
    made = [job.run("weigh", with_weights, one, program, job.options, sizes) for one in known]
    return [] if job.sink.has_errors else made


def requests_of(file: SourceFile | None, job: Job) -> "tuple[RequestKind, ...]":
    if file is None:
        return ()
    from mstarc.deployment.mix import read_mix

    return job.run("mix", read_mix, file, job.sink) or ()


def with_mix(
    found: "list[PassContext]", program: "Program", job: Job
) -> "tuple[list[PassContext], tuple[RequestKind, ...]]":
    """The targets with what requests look like, where that is given, and the kinds of them."""
    options = job.options
    kinds = requests_of(options.requests, job)
    if options.at_once is None and not kinds:
        return found, kinds
    from mstarc.analysis.placement.mixing import mix_of

    mix = mix_of(program, kinds, options.at_once)
    return [replace(one, mix=mix) for one in found], kinds


def deployed(
    context: "PassContext", deployment: "Deployment", program: "Program", job: "Job"
) -> "PassContext":
    """The target of a deployment: by the spec's name of its model; says what decides nothing."""
    from mstarc.deployment.idle import report_idle_settings

    assert job.tree is not None
    report_idle_settings(deployment, program, context.sink)
    return replace(context, deployment=for_the_spec(deployment, job.tree))


# What linting looks at besides the spec


def check_with_sizes(typed: "Typed", file: SourceFile, job: Job) -> None:
    """Check types once more, with the values of a file of sizes."""
    from mstarc.deployment.sizes import read_sizes

    sizes = job.run("sizes", read_sizes, file, job.sink)
    if sizes is not None:
        resolved = typed.resolved
        values = front_sizes(sizes, (), resolved, job.sink)
        job.run("check", check_types, resolved, job.sink, values, before=typed)


def placed_deployments(
    typed: "Typed", files: Sequence[SourceFile], job: Job
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
    plain = run_passes(program, first, job, stop_after=BEFORE_PLACEMENT)
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
                target = deployed(context, deployment, own, job)
                begin = BEFORE_PLACEMENT if own is plain else None
                run_passes(own, target, job, start_after=begin)
        for found in sink.diagnostics:
            job.sink.report(found)
    return None if job.sink.has_errors else tuple(read)


def _with_values(
    typed: "Typed",
    program: "Program",
    deployment: "Deployment",
    sink: DiagnosticSink,
    job: Job,
) -> "Program | None":
    """The program with the values of a deployment's `model_kwargs` and variant; none if wrong."""
    from mstarc.lowering import lower

    values = front_sizes(None, (deployment,), typed.resolved, sink)
    if values.variant is None and not values.config:
        return None if sink.has_errors else program
    own = job.run("check", check_types, typed.resolved, sink, values, before=typed)
    return None if sink.has_errors else job.run("lower", lower, own)
