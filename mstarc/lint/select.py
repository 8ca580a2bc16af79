"""Which rules run, and which of them fail: what `--select`, `--ignore` and `--deny` say."""

import re
from collections.abc import Iterable
from dataclasses import field

from mstarc.diagnostics import CATALOG, did_you_mean
from mstarc.lint.base import GROUPS, Rule
from mstarc.lint.registry import RULES
from mstarc.records import dataclass

ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The codes of the rules that run, and of those whose findings are errors."""

    enabled: frozenset[str] = field(
        default_factory=lambda: frozenset(rule.code for rule in RULES if rule.level != "allow")
    )
    denied: frozenset[str] = field(
        default_factory=lambda: frozenset(rule.code for rule in RULES if rule.level == "deny")
    )


def selection(
    select: Iterable[str] = (), ignore: Iterable[str] = (), deny: Iterable[str] = ()
) -> Selection:
    """The rules that are meant. Each word must be known: `unknown_words` says which are not.

    With words in `select` these rules run and no others; `ignore` wins over `select`; a rule in
    `deny` runs also.
    """
    chosen, dropped, denied = (_codes(words) for words in (select, ignore, deny))
    default = Selection()
    enabled = (chosen or default.enabled) | denied
    return Selection(enabled=enabled - dropped, denied=(default.denied | denied) - dropped)


def unknown_words(words: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Words that select no rule, each with the nearest ones that do."""
    known = sorted(
        {ALL, *GROUPS, *(rule.code for rule in RULES), *(CATALOG[rule.code].name for rule in RULES)}
    )
    return {word: did_you_mean(word, known) for word in words if not _codes([word])}


def _codes(words: Iterable[str]) -> frozenset[str]:
    return frozenset(rule.code for word in words for rule in RULES if _means(word, rule))


def _means(word: str, rule: Rule) -> bool:
    """Whether a word is a rule's code or the beginning of one, its name, its group, or `all`."""
    if re.fullmatch(r"(?i)ms\d{0,4}", word):
        return rule.code.startswith(word.upper())
    return word.lower() in (CATALOG[rule.code].name, rule.group, ALL)
