"""Which files `mstarc lint` looks at, and which deployments belong to which spec."""

from collections.abc import Iterable, Iterator
from dataclasses import field
from pathlib import Path

from mstarc.cli.file_kinds import is_other_yaml, read_spec
from mstarc.cli.find_spec import YAML
from mstarc.cli.inputs import read_source, shown_path
from mstarc.deployment.keys import kind_of_file, models_of, wanted_model
from mstarc.diagnostics import DiagnosticSink
from mstarc.records import dataclass
from mstarc.resources import spec_folders
from mstarc.source import SourceFile

_LINTED = "spec and no deployment"


@dataclass(slots=True, kw_only=True)
class SpecFiles:
    """A spec with its deployments and its files of sizes. `named`: the command line asks for it."""

    spec: SourceFile
    named: bool
    deployments: list[SourceFile] = field(default_factory=list)
    sizes: list[SourceFile] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class LintFiles:
    """All files of one run. `alone` and `sizes_alone` are those whose spec was not found."""

    specs: list[SpecFiles]
    alone: list[SourceFile] = field(default_factory=list)
    sizes_alone: list[SourceFile] = field(default_factory=list)

    @property
    def models(self) -> list[str]:
        """The models of the specs."""
        return [name for entry in self.specs for name in models_of(entry.spec.text)]


def find_files(paths: Iterable[Path], sink: DiagnosticSink) -> LintFiles:
    """The files under `paths`, read; what cannot be read is reported (MS0002, MS0003)."""
    specs: list[SpecFiles] = []
    others: list[tuple[Path, SourceFile, bool]] = []
    for path, asked in _listed(paths):
        is_yaml = path.suffix in YAML
        source = read_source(path, sink) if is_yaml else read_spec(path, sink)
        if source is None:
            continue
        if not is_yaml:
            specs.append(SpecFiles(spec=source, named=True))
        elif kind_of_file(source.text) in ("deployment", "sizes") or (
            # Other YAML in a folder is left alone.
            asked and not is_other_yaml(path, source.text, "deployment", sink, said=_LINTED)
        ):
            others.append((path, source, asked))
    found = LintFiles(specs=specs)
    for path, source, asked in others:
        if kind_of_file(source.text) == "sizes":
            _add_sizes(path, source, found, sink, asked=asked)
            continue
        owner = _owner(_model(source), path, found, sink, by_name=False)
        (found.alone if owner is None else owner.deployments).append(source)
    return found


def _add_sizes(
    path: Path, source: SourceFile, found: LintFiles, sink: DiagnosticSink, *, asked: bool
) -> None:
    """Give a file of sizes to its spec: by name, else the one beside it or the only one named."""
    owner = _owner(path.stem, path, found, sink, by_name=True) or _neighbour(path, found)
    if owner is None and asked:
        named = [entry for entry in found.specs if entry.named]
        owner = named[0] if len(named) == 1 else _only_one_beside(path, found)
    if owner is not None:
        owner.sizes.append(source)
    elif asked:
        # Those of no spec that was found are left alone in a folder.
        found.sizes_alone.append(source)


def _listed(paths: Iterable[Path]) -> Iterator[tuple[Path, bool]]:
    """Every file once, with whether it is named itself. Hidden folders are left out."""
    seen: set[str] = set()
    for path in paths:
        inside = [path] if not path.is_dir() else sorted(path.rglob("*"))
        for file in inside:
            below = file.relative_to(path).parts if file != path else ()
            hidden = any(part.startswith(".") for part in below)
            known = file.suffix in (".mstar", *YAML) and file.is_file()
            if file == path or (known and not hidden):
                resolved = shown_path(file)
                if resolved not in seen:
                    seen.add(resolved)
                    yield file, file == path


def _owner(
    wanted: str | None, path: Path, found: LintFiles, sink: DiagnosticSink, *, by_name: bool
) -> SpecFiles | None:
    """The spec of a model, or of a file's name: among those found, else in a folder near `path`."""
    for entry in found.specs:
        names = (Path(entry.spec.path).stem,) if by_name else models_of(entry.spec.text)
        if wanted in names:
            return entry
    if wanted is None:
        return None
    for folder in spec_folders(path):
        for candidate in sorted(folder.glob("*.mstar")):
            if by_name and candidate.stem != wanted:
                continue
            if any(entry.spec.path == shown_path(candidate) for entry in found.specs):
                continue
            # One that cannot be read is another model's as far as anybody knows.
            source = read_source(candidate, sink if by_name else DiagnosticSink())
            if source is not None and (by_name or wanted in models_of(source.text)):
                entry = SpecFiles(spec=source, named=False)
                found.specs.append(entry)
                return entry
    return None


def _neighbour(path: Path, found: LintFiles) -> SpecFiles | None:
    """The one spec of the folder that a file of sizes with a name of its own is in."""
    folder = path.absolute().parent
    beside = [entry for entry in found.specs if Path(entry.spec.path).absolute().parent == folder]
    return beside[0] if len(beside) == 1 else None


def _only_one_beside(path: Path, found: LintFiles) -> SpecFiles | None:
    """The spec in the folder of a file of sizes that was named alone, if there is just one."""
    beside = list(path.absolute().parent.glob("*.mstar"))
    source = read_source(beside[0], DiagnosticSink()) if len(beside) == 1 else None
    if source is None:
        return None
    entry = SpecFiles(spec=source, named=False)
    found.specs.append(entry)
    return entry


def models_near(path: Path) -> list[str]:
    """The models of the specs that a deployment's is looked for among."""
    specs = (spec for folder in spec_folders(path) for spec in sorted(folder.glob("*.mstar")))
    sources = (read_source(spec, DiagnosticSink()) for spec in specs)
    return [name for source in sources if source is not None for name in models_of(source.text)]


def _model(deployment: SourceFile) -> str | None:
    wanted = wanted_model(deployment)
    return None if wanted is None else wanted[0]
