"""A mistake that a person could make in a file: what `mutations.py` gives to the compiler."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeVar

from mstarc.source import SourceFile, Span

Site = TypeVar("Site")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A broken text. `lines` (from 1) are where the mistake is, and any of them will do.

    Where something was changed these are its lines; where something was left out, the block that it
    stood in and every line that names what it set or called; where a name was changed that is
    declared there, also its uses, since either end may be the wrong one.
    """

    kind: str
    what: str
    text: str
    lines: frozenset[int]


def typo(word: str, taken: Iterable[str] = ()) -> str:
    """The word with two letters in the wrong order, or one letter twice."""
    taken = set(taken)
    middle = len(word) // 2
    pair = word[max(0, middle - 1) : middle + 1]
    swapped = word[: max(0, middle - 1)] + pair[::-1] + word[middle + 1 :]
    for wrong in (swapped, word[:-1] if len(word) > 3 else word, word + word[-1], word + "x"):
        if wrong != word and wrong not in taken and re.fullmatch(r"[A-Za-z_]\w*", wrong):
            return wrong
    return word + "_x"


def pick(sites: Sequence[Site], key: str, count: int = 1) -> list[Site]:
    """Up to `count` of the sites, the same in every run."""
    ranked = sorted(range(len(sites)), key=lambda index: sha256(f"{key}/{index}".encode()).digest())
    return [sites[index] for index in sorted(ranked[:count])]


def changed(
    kind: str, source: SourceFile, span: Span, text: str, *, also: Iterable[str] = ()
) -> Mutant:
    """The text under `span` replaced by `text`; lines with the words `also` count too."""
    start, end = span.start, span.end
    mutated = source.text[:start] + text + source.text[end:]
    old = source.text[start:end]
    shown = " ".join(old.split())
    what = f"`{shown[:40]}{'…' if len(shown) > 40 else ''}` -> `{' '.join(text.split())[:40]}`"
    first = mutated.count("\n", 0, start) + 1
    last = first + text.count("\n")
    lines = {*range(first, last + 1), *lines_with(mutated, also)}
    return Mutant(kind=kind, what=what, text=mutated, lines=frozenset(lines))


def left_out(
    kind: str, source: SourceFile, span: Span, block: Span, *, also: Iterable[str] = ()
) -> Mutant:
    """The text under `span` taken away, with its line where nothing else is on it."""
    text = source.text
    start, end = span.start, span.end
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    line_end = len(text) if line_end < 0 else line_end + 1
    after = text[end:line_end].strip()
    if not text[line_start:start].strip() and (not after or after.startswith("#")):
        start, end = line_start, line_end
    mutated = text[:start] + text[end:]
    removed = text.count("\n", start, end)
    first = text.count("\n", 0, block.start) + 1
    last = text.count("\n", 0, block.end) + 1 - removed
    here = mutated.count("\n", 0, start) + 1
    lines = {*range(first, last + 1), here, *lines_with(mutated, also)}
    shown = " ".join(source.slice(span).split())
    what = f"without `{shown[:50]}{'…' if len(shown) > 50 else ''}`"
    return Mutant(kind=kind, what=what, text=mutated, lines=frozenset(lines))


def lines_with(text: str, words: Iterable[str]) -> Iterator[int]:
    """The lines that hold one of the words."""
    patterns = [re.compile(rf"\b{re.escape(word)}\b") for word in words]
    for number, line in enumerate(text.split("\n"), 1):
        if any(pattern.search(line) for pattern in patterns):
            yield number
