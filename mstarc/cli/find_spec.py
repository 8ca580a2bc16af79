"""Which spec a deployment file is for: by the model that it names, near the file or among ours."""

from pathlib import Path

from mstarc.cli.inputs import read_source, shown_path
from mstarc.deployment.keys import models_of, wanted_model
from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label, did_you_mean
from mstarc.resources import spec_folders
from mstarc.source import SourceFile

YAML = (".yaml", ".yml")


def find_spec(deployment: SourceFile, path: Path, sink: DiagnosticSink) -> SourceFile | None:
    """The spec of a deployment's model; none after a report (MS0631) that there is none."""
    wanted = wanted_model(deployment)
    if wanted is None:
        # Without a model the file says too little; what is missing is said where it is read.
        from mstarc.deployment import read_deployment

        read_deployment(deployment, sink)
        return None
    name, span = wanted
    known: dict[str, None] = {}
    folders = list(spec_folders(path))
    for candidate in (file for folder in folders for file in sorted(folder.glob("*.mstar"))):
        # One that cannot be read is another model's as far as anybody knows.
        source = read_source(candidate, DiagnosticSink())
        models = models_of(source.text) if source is not None else ()
        if name in models:
            return source
        known.update(dict.fromkeys(models))
    near = did_you_mean(name, known)
    listed = ", ".join(f"`{shown_path(folder)}`" for folder in folders)
    found = Diagnostic(
        code="MS0631",
        message=f"no spec is of the model `{name}`",
        primary=Label(span=span, text="the model of this deployment"),
        notes=(f"looked in {listed}",),
        helps=(
            *((f"did you mean {' or '.join(f'`{model}`' for model in near)}?",) if near else ()),
            "or name the spec: `mstarc compile SPEC --deployment FILE`",
        ),
    )
    sink.report(found)
    return None
