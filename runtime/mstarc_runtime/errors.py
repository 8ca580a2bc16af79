"""What went wrong at run time, as data: code, name, message, notes, help.

The runtime's own catalogue (MS9xxx) and the one exception that carries a row of it to whoever
prints it. A `RuntimeFailure` is about the user's input, files or machine; a mistake of ours is an
`AssertionError` and never gets a code.

Ranges: MS90xx settings, plans and files · MS91xx weights · MS92xx media and requests ·
MS93xx workers and serving.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueRow:
    """One kind of failure. `code` never changes; `name` reads after "allow"."""

    code: str
    name: str
    summary: str


CATALOGUE: tuple[CatalogueRow, ...] = (
    CatalogueRow(
        code="MS9001", name="bad-setting", summary="an environment variable has a value of no use"
    ),
    CatalogueRow(
        code="MS9002", name="disk-full", summary="there is no room for a file that must be written"
    ),
    CatalogueRow(code="MS9003", name="not-writable", summary="a file or folder can't be written"),
    CatalogueRow(
        code="MS9101", name="unknown-weights", summary="no source has this name for weights"
    ),
    CatalogueRow(code="MS9102", name="fetch-failed", summary="weights could not be downloaded"),
    CatalogueRow(
        code="MS9103", name="weights-hash", summary="a weights file is not the one that was pinned"
    ),
    CatalogueRow(
        code="MS9104",
        name="weights-missing",
        summary="a needed tensor or file is not there",
    ),
    CatalogueRow(
        code="MS9105", name="weights-shape", summary="a tensor has another shape than the model's"
    ),
    CatalogueRow(
        code="MS9106",
        name="weights-left-over",
        summary="a layer's tensor has no place in it",
    ),
    CatalogueRow(code="MS9107", name="weights-unreadable", summary="a weights file can't be read"),
    CatalogueRow(
        code="MS9108",
        name="missing-package",
        summary="a needed Python package is not there",
    ),
    CatalogueRow(
        code="MS9109", name="model-config", summary="a checkpoint's config.json doesn't suit a model"
    ),
    CatalogueRow(
        code="MS9201",
        name="unreadable-input",
        summary="an input file can't be opened",
    ),
    CatalogueRow(code="MS9202", name="not-audio", summary="an input file holds no sound"),
    CatalogueRow(code="MS9203", name="empty-audio", summary="a recording has no samples"),
    CatalogueRow(
        code="MS9204", name="audio-too-long", summary="a recording is longer than the model hears"
    ),
    CatalogueRow(
        code="MS9205",
        name="audio-not-finite",
        summary="a recording's samples are no numbers",
    ),
)

_ROWS = {row.code: row for row in CATALOGUE}


class RuntimeFailure(Exception):  # noqa: N818 - a failure is no programming error
    """A failure with a code, a headline, consequences (`notes`) and remedies (`helps`)."""

    def __init__(
        self, code: str, message: str, *, notes: Iterable[str] = (), helps: Iterable[str] = ()
    ) -> None:
        assert code in _ROWS, f"{code} is not in the catalogue"
        super().__init__(message)
        self.code = code
        self.message = message
        self.notes = tuple(notes)
        self.helps = tuple(helps)

    @property
    def name(self) -> str:
        return _ROWS[self.code].name

    def __str__(self) -> str:
        return render(self)


def render(failure: RuntimeFailure) -> str:
    """The text of a failure in the shape of the compiler's diagnostics.

    >>> print(render(RuntimeFailure("MS9203", "`a.wav` is empty", helps=["record something"])))
    error[MS9203]: `a.wav` is empty
       = help: record something
       = more: `mstarc explain MS9203`
    """
    lines = [f"error[{failure.code}]: {failure.message}"]
    lines += [f"   = note: {note}" for note in failure.notes]
    lines += [f"   = help: {text}" for text in failure.helps]
    lines.append(f"   = more: `mstarc explain {failure.code}`")
    return "\n".join(lines)
