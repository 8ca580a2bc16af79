"""A deployment file whose spec is not known."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label, did_you_mean

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
