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
    CatalogEntry("MS0009", "malformed-sizes", "error", "invocation"),
    CatalogEntry("MS0101", "syntax-error", "error", "syntax"),
    CatalogEntry("MS0102", "unclosed-brace", "error", "syntax"),
    CatalogEntry("MS0103", "stray-brace", "error", "syntax"),
    CatalogEntry("MS0104", "unclosed-string", "error", "syntax"),
    CatalogEntry("MS0105", "stray-character", "error", "syntax"),
    CatalogEntry("MS0106", "reserved-word", "error", "syntax"),
    CatalogEntry("MS0107", "missing-version", "error", "syntax"),
    CatalogEntry("MS0108", "unsupported-version", "error", "syntax"),
    CatalogEntry("MS0109", "misplaced-statement", "error", "syntax"),
    CatalogEntry("MS0110", "foreign-word", "error", "syntax"),
    CatalogEntry("MS0111", "foreign-comment", "error", "syntax"),
    CatalogEntry("MS0112", "foreign-mark", "error", "syntax"),
    CatalogEntry("MS0113", "wrong-arrow", "error", "syntax"),
    CatalogEntry("MS0114", "block-without-braces", "error", "syntax"),
    CatalogEntry("MS0115", "empty-block", "error", "syntax"),
    CatalogEntry("MS0116", "missing-chunk-policy", "error", "syntax"),
    CatalogEntry("MS0117", "unbounded-loop", "error", "syntax"),
    CatalogEntry("MS0118", "malformed-number", "error", "syntax"),
    CatalogEntry("MS0119", "unknown-escape", "error", "syntax"),
    CatalogEntry("MS0120", "names-for-streams", "error", "syntax"),
    CatalogEntry("MS0121", "nested-too-deeply", "error", "syntax"),
    CatalogEntry("MS0122", "missing-model", "error", "syntax"),
    CatalogEntry("MS0123", "not-callable", "error", "syntax"),
    CatalogEntry("MS0480", "machines-wait-in-a-circle", "error", "streams"),
    CatalogEntry("MS0481", "stream-may-fill-up", "error", "streams"),
    CatalogEntry("MS0601", "unknown-devices", "error", "placement"),
    CatalogEntry("MS0602", "malformed-deployment", "error", "placement"),
    CatalogEntry("MS0603", "unknown-deployment-key", "error", "placement"),
    CatalogEntry("MS0604", "missing-deployment-key", "error", "placement"),
    CatalogEntry("MS0605", "bad-deployment-value", "error", "placement"),
    CatalogEntry("MS0606", "deployment-of-another-model", "error", "placement"),
    CatalogEntry("MS0607", "node-not-placed", "error", "placement"),
    CatalogEntry("MS0608", "unknown-placed-node", "error", "placement"),
    CatalogEntry("MS0609", "unknown-placed-walk", "error", "placement"),
    CatalogEntry("MS0610", "rank-named-twice", "error", "placement"),
    CatalogEntry("MS0611", "no-ranks", "error", "placement"),
    CatalogEntry("MS0612", "rank-out-of-range", "error", "placement"),
    CatalogEntry("MS0613", "node-placed-twice", "error", "placement"),
    CatalogEntry("MS0614", "ranks-not-divisible", "error", "placement"),
    CatalogEntry("MS0615", "layout-not-built", "error", "placement"),
    CatalogEntry("MS0616", "node-not-shardable", "error", "placement"),
    CatalogEntry("MS0617", "memory-does-not-fit", "error", "placement"),
    CatalogEntry("MS0618", "idle-rank", "warning", "placement"),
    CatalogEntry("MS0619", "walk-without-node", "warning", "placement"),
    CatalogEntry("MS0620", "kv-size-unknown", "error", "placement"),
    CatalogEntry("MS0701", "call-not-captured", "error", "regions"),
    CatalogEntry("MS0801", "plan-file-edited", "error", "generated"),
    CatalogEntry("MS0802", "plan-file-orphaned", "error", "generated"),
    CatalogEntry("MS0803", "plan-file-missing", "error", "generated"),
    CatalogEntry("MS0900", "internal-error", "error", "internal"),
)

CATALOG: dict[str, CatalogEntry] = {entry.code: entry for entry in _ENTRIES}
