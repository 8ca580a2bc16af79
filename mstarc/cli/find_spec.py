"""Which spec a deployment file is for: by the model that it names, near the file or among ours."""

import re
from collections.abc import Iterator
from pathlib import Path

from mstarc.cli.inputs import read_source, shown_path
from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label, did_you_mean
from mstarc.resources import specs_folder
from mstarc.source import SourceFile, Span

YAML = (".yaml", ".yml")

_MODEL_KEY = re.compile(r"^model[ \t]*:[ \t]*[\"']?([^\s\"'#]+)", re.MULTILINE)
_MODEL_LINE = re.compile(
    r"^[ \t]*(?:model[ \t]+([A-Za-z_]\w*)|variant[ \t]+\"([^\"\n]*)\")", re.MULTILINE
)


def wanted_model(deployment: SourceFile) -> str | None:
    """The model that a deployment file names, as far as its text tells."""
    match = _MODEL_KEY.search(deployment.text)
    return match[1] if match else None


def models_of(spec: SourceFile) -> tuple[str, ...]:
    """The public names of a spec's model: its own, then those of variants, as its text tells."""
    return tuple(match[1] or match[2] for match in _MODEL_LINE.finditer(spec.text))


def find_spec(deployment: SourceFile, path: Path, sink: DiagnosticSink) -> SourceFile | None:
    """The spec of a deployment's model; none after a report (MS0631) that there is none.

    Specs beside the file and in the folder above count first, then those in `specs/` here, then
    those that mstarc ships.
    """
    wanted = wanted_model(deployment)
    known: dict[str, None] = {}
    for folder in _folders(path):
        for candidate in sorted(folder.glob("*.mstar")):
            source = read_source(candidate, sink)
            models = models_of(source) if source is not None else ()
            if wanted is not None and wanted in models:
                return source
            known.update(dict.fromkeys(models))
    if wanted is None:
        # Without a model the file says too little; what is missing is said where it is read.
        from mstarc.deployment import read_deployment

        read_deployment(deployment, sink)
        return None
    match = _MODEL_KEY.search(deployment.text)
    assert match is not None
    near = did_you_mean(wanted, known)
    listed = ", ".join(f"`{shown_path(folder)}`" for folder in _folders(path))
    found = Diagnostic(
        code="MS0631",
        message=f"no spec is of the model `{wanted}`",
        primary=Label(
            span=Span(path=deployment.path, start=match.start(1), end=match.end(1)),
            text="the model of this deployment",
        ),
        notes=(f"looked in {listed}",),
        helps=(
            *((f"did you mean {' or '.join(f'`{name}`' for name in near)}?",) if near else ()),
            "or name the spec: `mstarc compile SPEC --deployment FILE`",
        ),
    )
    sink.report(found)
    return None


def _folders(path: Path) -> Iterator[Path]:
    seen: set[Path] = set()
    for folder in (*list(path.absolute().parents)[:2], Path.cwd() / "specs", specs_folder()):
        resolved = folder.resolve()
        if resolved not in seen and resolved.is_dir():
            seen.add(resolved)
            yield folder
