"""The page that explains a code, found by code or by name."""

import json
import re

from mstarc.diagnostics.catalog import CATALOG
from mstarc.diagnostics.suggest import did_you_mean
from mstarc.records import dataclass
from mstarc.resources import error_page, error_page_names

REQUIRED_HEADINGS = ("What it means", "Why it matters", "Example", "Use instead", "See also")


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A code's page, the fixed headings of style and what the catalogue knows."""

    code: str
    name: str
    page: str

    @property
    def has_fix(self) -> bool:
        """Whether a tool may repair it: the page says how safe that is."""
        return "\n## Fix safety\n" in self.page

    def as_json(self) -> str:
        """One JSON object; runtime codes (MS9xxx) have no row here and are errors."""
        entry = CATALOG.get(self.code)
        facts = {
            "schema": 1,
            "code": self.code,
            "name": self.name,
            "severity": entry.severity if entry else "error",
            "group": entry.group if entry else "runtime",
            "fix": self.has_fix,
            "page": self.page,
        }
        return json.dumps(facts, ensure_ascii=False, indent=2) + "\n"


def explain(wanted: str) -> Explanation | tuple[str, ...]:
    """The explanation of a code or a name, in any case; or the nearest names there are."""
    names = {entry.code: entry.name for entry in CATALOG.values()} | error_page_names()
    codes = {name: code for code, name in names.items()}
    code = wanted.upper() if wanted.upper() in names else codes.get(wanted.lower(), "")
    if code and (page := error_page(code)) is not None:
        return Explanation(code=code, name=names[code], page=page)
    if wanted.isdecimal() and (whole := f"MS{int(wanted):04}") in names:
        return (whole,)
    known = names if re.fullmatch(r"(?i)ms\d*", wanted) else codes
    return did_you_mean(wanted, known)
