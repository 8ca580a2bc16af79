"""What a renderer is given: findings in order, their texts, and what was attempted."""

from collections.abc import Mapping
from dataclasses import replace

from mstarc.diagnostics.catalog import CATALOG, CatalogEntry
from mstarc.diagnostics.diagnostic import Diagnostic
from mstarc.records import dataclass
from mstarc.source import Position, SourceFile, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Findings to show. `sources` holds each file by the path that spans name.

    `attempt` says what could not be done, for the closing line: "compile `specs/orpheus.mstar`".
    `denied` are codes of warnings that the user wants to be errors.
    """

    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, SourceFile]
    attempt: str
    version: str
    colour: bool = False
    denied: frozenset[str] = frozenset()

    def entry(self, diagnostic: Diagnostic) -> CatalogEntry:
        """The catalogue's row of a finding, an error where its code is denied."""
        entry = CATALOG[diagnostic.code]
        return replace(entry, severity="error") if diagnostic.code in self.denied else entry

    def count(self, severity: str) -> int:
        """How many findings have this severity."""
        return sum(self.entry(diagnostic).severity == severity for diagnostic in self.diagnostics)

    def start(self, span: Span) -> Position | None:
        """Where `span` begins; none when the file's text is not known (it could not be read)."""
        source = self.sources.get(span.path)
        return None if source is None else source.position(span.start)

    def end(self, span: Span) -> Position | None:
        """Where `span` ends, the column after its last character; none as for `start`."""
        source = self.sources.get(span.path)
        return None if source is None else source.position(span.end)
