"""Every code: its name, severity and group. Codes are never reused or renumbered."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One code. `name` is kebab-case, `group` a stage or a lint group."""

    code: str
    name: str
    severity: Severity
    group: str


_ENTRIES: tuple[CatalogEntry, ...] = (
    CatalogEntry("MS0001", "bad-usage", "error", "invocation"),
    CatalogEntry("MS0002", "unreadable-file", "error", "invocation"),
    CatalogEntry("MS0003", "not-utf-8", "error", "invocation"),
    CatalogEntry("MS0004", "unwritable-output", "error", "invocation"),
    CatalogEntry("MS0005", "output-is-not-a-plan", "error", "invocation"),
    CatalogEntry("MS0006", "runtime-not-installed", "error", "invocation"),
    CatalogEntry("MS0007", "unknown-code", "error", "invocation"),
    CatalogEntry("MS0008", "not-a-plan", "error", "invocation"),
    CatalogEntry("MS0101", "syntax-error", "error", "syntax"),
    CatalogEntry("MS0801", "plan-file-edited", "error", "generated"),
    CatalogEntry("MS0802", "plan-file-orphaned", "error", "generated"),
    CatalogEntry("MS0803", "plan-file-missing", "error", "generated"),
    CatalogEntry("MS0900", "internal-error", "error", "internal"),
)

CATALOG: dict[str, CatalogEntry] = {entry.code: entry for entry in _ENTRIES}
