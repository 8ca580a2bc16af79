"""Every code: its name, severity and group. Codes are never reused or renumbered."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One code. `name` is kebab-case and reads after "allow"; `group` is the stage or lint group."""

    code: str
    name: str
    severity: Severity
    group: str


_ENTRIES: tuple[CatalogEntry, ...] = (
    CatalogEntry("MS0101", "syntax-error", "error", "syntax"),
    CatalogEntry("MS0900", "internal-error", "error", "internal"),
)

CATALOG: dict[str, CatalogEntry] = {entry.code: entry for entry in _ENTRIES}
