"""Read the files that a command line names."""

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label, did_you_mean
from mstarc.source import SourceFile, Span


def read_source(path: Path, sink: DiagnosticSink) -> SourceFile | None:
    """The text at `path`, or none and a finding (MS0002, MS0003)."""
    name = shown_path(path)
    try:
        str(path).encode()
    except UnicodeEncodeError:
        note = "its name is not in UTF-8, and plans and reports are"
        _report(sink, "MS0002", name, f"`{name}` could not be read", note)
        return None
    try:
        content = path.read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        remedy = _nearest(path) if isinstance(error, FileNotFoundError) else ""
        _report(sink, "MS0002", name, f"`{name}` could not be read", reason.lower(), remedy)
        return None
    try:
        # A byte order mark is no part of the text.
        return SourceFile(path=name, text=content.decode("utf-8-sig").replace("\r\n", "\n"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        note = f"byte {error.start} (line {line}) is {content[error.start]:#04x}"
        _report(sink, "MS0003", name, f"`{name}` is not a text in UTF-8", note)
        return None


def read_sources(paths: Iterable[Path], sink: DiagnosticSink) -> list[SourceFile]:
    """The texts that could be read, in order; the sink knows about the others."""
    found = (read_source(path, sink) for path in paths)
    return [source for source in found if source is not None]


def read_folder(folder: Path, sink: DiagnosticSink) -> dict[str, bytes] | None:
    """The files in a plan's folder by path inside it; none and a finding (MS0002, MS0008)."""
    name = shown_path(folder)
    if not folder.is_dir():
        note = "it is not a folder" if folder.exists() else "no such folder"
        remedy = "`mstarc compile SPEC -o PLAN` makes a plan"
        if folder.suffix == ".mstar":
            note = "it is a spec"
            remedy = f"`mstarc compile {name} -o PLAN` makes a plan of it, `mstarc lint` checks it"
        _report(sink, "MS0008", name, f"`{name}` is not a plan", note, remedy)
        return None
    # Loaded here: other commands read no plans.
    from mstarc.codegen.integrity import is_part_of_plan

    files = {}
    for path in sorted(folder.rglob("*")):
        inside = PurePosixPath(path.relative_to(folder).as_posix())
        if not is_part_of_plan(inside) or path.is_dir():
            continue
        try:
            files[str(inside)] = path.read_bytes()
        except OSError as error:
            reason = error.strerror or type(error).__name__
            _report(sink, "MS0002", shown_path(path), f"`{path}` could not be read", reason.lower())
            return None
    return files


def shown_path(path: Path) -> str:
    """`path` as we show it: relative to the working folder where it lies inside, with `/`.

    What is not UTF-8 in it is replaced: it could not be written anywhere.
    """
    try:
        here = Path.cwd()
        absolute = path.absolute()
    except FileNotFoundError:  # the working folder was removed
        absolute = here = path
    shown = absolute.relative_to(here) if absolute.is_relative_to(here) and path != here else path
    return shown.as_posix().encode(errors="replace").decode()


def _nearest(path: Path) -> str:
    """What may have been meant by a file that there is not; empty where nothing comes near."""
    try:
        names = [entry.name for entry in path.absolute().parent.iterdir()]
    except OSError:
        return ""
    near = did_you_mean(path.name, names)
    with_ending = [name for name in names if Path(name).stem == path.name]
    found = dict.fromkeys([*with_ending, *near])
    shown = [f"`{shown_path(path.with_name(name))}`" for name in found]
    return f"did you mean {' or '.join(shown[:3])}?" if shown else ""


def _report(
    sink: DiagnosticSink, code: str, path: str, message: str, note: str, remedy: str = ""
) -> None:
    # The label is for formats of one line: no text is there to draw it under.
    place = Label(span=Span(path=path, start=0, end=0), text=note)
    found = Diagnostic(code=code, message=message, primary=place, notes=(note,))
    sink.report(found.help(remedy) if remedy else found)
