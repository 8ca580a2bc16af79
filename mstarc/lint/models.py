"""A deployment file, or a file of sizes, whose spec is not known."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label, did_you_mean
from mstarc.source import SourceFile, Span

if TYPE_CHECKING:
    from mstarc.deployment import Deployment


def report_unknown_model(
    deployment: "Deployment", models: Sequence[str], sink: DiagnosticSink
) -> None:
    """Report (MS0606) that no spec of the deployment's model was found among `models`."""
    name = deployment.model.value
    found = Diagnostic(
        code="MS0606",
        message=f"there is no spec of the model `{name}`",
        primary=Label(span=deployment.model.span, text="named by no `model` line that was read"),
    )
    if near := did_you_mean(name, models):
        found = found.help(f"did you mean {' or '.join(f'`{model}`' for model in near)}?")
    else:
        found = found.help("lint it together with its spec: `mstarc lint specs/`")
    sink.report(found)


def report_unknown_spec(file: SourceFile, models: Sequence[str], sink: DiagnosticSink) -> None:
    """Report (MS0631) that no spec was found for a file of sizes, which names none itself."""
    name = PurePath(file.path).stem
    near = " or ".join(f"`{model}`" for model in did_you_mean(name, models))
    sink.report(
        Diagnostic(
            code="MS0631",
            message=f"no spec `{name}.mstar` was found for this file of sizes",
            primary=Label(span=Span(path=file.path, start=0, end=0), text="sizes of which spec?"),
            notes=("its names and values are checked with a spec: so far only its form was",),
            helps=(
                *((f"did you mean {near}?",) if near else ()),
                f"name the spec beside it: `mstarc lint SPEC {file.path}`",
            ),
        )
    )
