"""One thing we tell a user: what, where, why, and what to do, each in its own place."""

from dataclasses import field, replace
from typing import Literal

from mstarc.records import dataclass
from mstarc.source import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A place and what holds there. The primary one says why the mistake is a mistake."""

    span: Span
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Replace the text under `span` by `text`."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """A change that a tool may make: `safe` ones keep the meaning of a correct reading."""

    message: str
    edits: tuple[Edit, ...]
    applicability: Literal["safe", "unsafe"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """A finding. `message` says what is wrong, complete without the picture and without a remedy.

    `primary` is where and why; `labels` are the other facts that make it wrong; `notes` are
    consequences; `helps` say what to do.
    """

    code: str
    message: str
    primary: Label
    labels: tuple[Label, ...] = ()
    notes: tuple[str, ...] = ()
    helps: tuple[str, ...] = ()
    fix: Fix | None = field(default=None)

    def label(self, span: Span, text: str) -> "Diagnostic":
        """The same, with one more secondary label."""
        return replace(self, labels=(*self.labels, Label(span=span, text=text)))

    def note(self, text: str) -> "Diagnostic":
        """The same, with one more note."""
        return replace(self, notes=(*self.notes, text))

    def help(self, text: str) -> "Diagnostic":
        """The same, with one more help."""
        return replace(self, helps=(*self.helps, text))

    def with_fix(self, fix: Fix) -> "Diagnostic":
        """The same, with a fix."""
        return replace(self, fix=fix)


class InternalError(Exception):
    """A mistake of ours. `stage` names the pass; `span` the spec line being compiled."""

    def __init__(self, message: str, *, stage: str, span: Span | None = None) -> None:
        super().__init__(message)
        self.stage = stage
        self.span = span
