"""Which files `mstarc lint` looks at, and which deployments belong to which spec."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import field
from pathlib import Path

from mstarc.cli.file_kinds import read_spec
from mstarc.cli.find_spec import YAML
from mstarc.cli.inputs import read_source, shown_path
from mstarc.deployment.keys import is_deployment, models_of, wanted_model
from mstarc.diagnostics import DiagnosticSink
from mstarc.records import dataclass
from mstarc.resources import spec_folders
from mstarc.source import SourceFile

# What a file is for is told by its keys, so that other YAML in a folder is left alone.
_SIZES = re.compile(r"^(?:config|weights)[ \t]*:", re.MULTILINE)


@dataclass(slots=True, kw_only=True)
class SpecFiles:
    """A spec with its deployments and its files of sizes. `named`: the command line asks for it."""

    spec: SourceFile
    named: bool
    deployments: list[SourceFile] = field(default_factory=list)
    sizes: list[SourceFile] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class LintFiles:
    """All files of one run. `alone` are deployments whose spec was not found."""

    specs: list[SpecFiles]
    alone: list[SourceFile]

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
        elif asked or is_deployment(source.text) or _SIZES.search(source.text):
            others.append((path, source, asked))
    found = LintFiles(specs=specs, alone=[])
    for path, source, asked in others:
        is_sizes = _is_sizes(source)
        wanted = path.stem if is_sizes else _model(source)
        owner = _owner(wanted, path, found, sink, by_name=is_sizes)
        if owner is None and is_sizes:
            owner = _neighbour(path, found)
        if owner is None:
            # Sizes of no spec that was found are no deployment, so they are left alone in a folder.
            if asked or not is_sizes:
                found.alone.append(source)
        else:
            (owner.sizes if is_sizes else owner.deployments).append(source)
    return found


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


def _is_sizes(source: SourceFile) -> bool:
    return bool(_SIZES.search(source.text)) and not is_deployment(source.text)


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
    near = list(path.absolute().parents)[:2] if by_name else spec_folders(path)
    for folder in near:
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


def _model(deployment: SourceFile) -> str | None:
    wanted = wanted_model(deployment)
    return None if wanted is None else wanted[0]
