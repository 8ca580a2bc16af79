"""Where stages report what they find."""

from mstarc.diagnostics.catalog import CATALOG
from mstarc.diagnostics.diagnostic import Diagnostic, Label
from mstarc.source import Span


class DiagnosticSink:
    """Collects diagnostics in the order reported and gives them back in source order."""

    def __init__(self) -> None:
        self._diagnostics: list[Diagnostic] = []

    def report(self, diagnostic: Diagnostic) -> None:
        """Add a finding; the code must be in the catalogue. An exact repeat is dropped."""
        assert diagnostic.code in CATALOG, f"{diagnostic.code} is not in the catalogue"
        if not diagnostic.helps and diagnostic.fix is None:
            # Imported where it is needed: a spec without findings loads no texts.
            from mstarc.diagnostics.remedies import REMEDIES

            if remedy := REMEDIES.get(diagnostic.code):
                diagnostic = diagnostic.help(remedy)
        if diagnostic not in self._diagnostics:
            self._diagnostics.append(diagnostic)

    def error(self, code: str, span: Span, message: str, label: str = "") -> None:
        """Report a finding that has a headline and a primary label only."""
        self.report(Diagnostic(code=code, message=message, primary=Label(span=span, text=label)))

    @property
    def has_errors(self) -> bool:
        """Whether any finding is an error (not a warning)."""
        return any(CATALOG[d.code].severity == "error" for d in self._diagnostics)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All findings by file, position and code."""
        return tuple(
            sorted(
                self._diagnostics,
                key=lambda d: (d.primary.span.path, d.primary.span.start, d.code, d.message),
            )
        )
