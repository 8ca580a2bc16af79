"""The grammar as tables: `grammar/mstar.lark` turned into `tables.json`, and that file read.

lark makes the tables in a third of a second and reading them takes a few milliseconds, so they are
made once (`python -m mstarc.syntax.tables`), committed, and shipped. They carry a checksum of the
grammar: in a checkout whose grammar has changed since, they are made again in memory.
"""

import json
import zlib
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from mstarc.records import dataclass
from mstarc.resources import grammar_folder

END = "$END"
"""The terminal after the last token."""

TABLES_FILE = Path(__file__).with_name("tables.json")

Row: TypeAlias = dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleShape:
    """What a reduction does: takes `length` entries and calls `callback` with some of them.

    `picks` names the entries that become children: index, whether its own children take its
    place, and how many missing optional pieces come before it; `missing_last` come at the end.
    With `passes_single` a lone child is the result, without a call.
    """

    origin: str
    callback: str
    length: int
    picks: tuple[tuple[int, bool, int], ...]
    missing_last: int
    passes_single: bool

    @property
    def is_plain_pass(self) -> bool:
        """Whether the result is always the one entry itself."""
        return (
            self.passes_single and self.length == 1 and self.picks == ((0, False, 0),)
        ) and self.missing_last == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The automaton. In `rows[state]`, `n >= 0` goes to state n, `-r - 1` reduces by rule r.

    `words` and `marks` map the text of a word or a punctuation mark to its terminal.
    `constructs[state]` names the rules that are under way in a state, the longest first.
    """

    rules: tuple[RuleShape, ...]
    rows: tuple[Row, ...]
    constructs: tuple[tuple[str, ...], ...]
    words: dict[str, str]
    marks: dict[str, str]


def make_tables(grammar: str, *, strict: bool) -> dict[str, Any]:
    """The content of `tables.json` for a grammar. `strict` also refuses ambiguous terminals."""
    # Imported here: lark is slow to import and not needed when the tables fit the grammar.
    from lark import Lark
    from lark.grammar import Rule
    from lark.parsers.lalr_analysis import Shift

    lark = Lark(grammar, parser="lalr", strict=strict, debug=True, maybe_placeholders=True)
    table = lark.parser.parser._parse_table
    numbers = {table.start_states["start"]: 0}
    waiting = [table.start_states["start"]]
    rule_numbers: dict[Rule, int] = {}
    rows: list[Row] = []
    for state in waiting:
        row: Row = {}
        for symbol, (action, argument) in sorted(table.states[state].items(), key=_symbol):
            if action is Shift:
                if argument not in numbers:
                    numbers[argument] = len(numbers)
                    waiting.append(argument)
                row[symbol] = numbers[argument]
            else:
                row[symbol] = -rule_numbers.setdefault(argument, len(rule_numbers)) - 1
        if state == table.end_states["start"]:
            row[END] = numbers[state]
        rows.append(row)
    literals = {t.pattern.value: t.name for t in lark.terminals if t.pattern.type == "str"}
    return {
        "grammar": _digest(grammar),
        "words": {text: name for text, name in sorted(literals.items()) if _is_word(text)},
        "marks": {text: name for text, name in sorted(literals.items()) if not _is_word(text)},
        "rules": [_shape(rule) for rule in rule_numbers],
        "constructs": [_constructs(state) for state in waiting],
        "rows": rows,
    }


@cache
def load_tables() -> Tables:
    """The tables of the shipped grammar."""
    content = json.loads(TABLES_FILE.read_text(encoding="utf-8"))
    written = grammar_folder() / "mstar.lark"
    if written.is_file():
        grammar = written.read_text(encoding="utf-8")
        if content["grammar"] != _digest(grammar):
            content = make_tables(grammar, strict=False)
    return _read(content)


def _read(content: dict[str, Any]) -> Tables:
    return Tables(
        rules=tuple(
            RuleShape(
                origin=origin,
                callback=callback,
                length=length,
                picks=tuple((index, bool(spread), missing) for index, spread, missing in picks),
                missing_last=missing_last,
                passes_single=bool(passes_single),
            )
            for origin, callback, length, picks, missing_last, passes_single in content["rules"]
        ),
        rows=tuple(content["rows"]),
        constructs=tuple(tuple(names) for names in content["constructs"]),
        words=content["words"],
        marks=content["marks"],
    )


def _shape(rule: Any) -> list[Any]:
    """A rule of lark as a row of `tables.json`, with each missing `[…]` counted."""
    present = len(rule.expansion)
    missing = [0] * (present + 1)
    if rule.options.empty_indices:
        gaps = "".join(str(int(empty)) for empty in rule.options.empty_indices).split("0")
        missing = [len(gap) for gap in gaps]
    picks = []
    waiting = 0
    for index, symbol in enumerate(rule.expansion):
        waiting += missing[index]
        if symbol.is_term and symbol.filter_out:
            continue
        spread = not symbol.is_term and symbol.name.startswith("_")
        picks.append([index, int(spread), waiting])
        waiting = 0
    return [
        str(rule.origin.name),
        str(rule.alias or rule.origin.name),
        present,
        picks,
        waiting + missing[present],
        int(bool(rule.options.expand1) and not rule.alias),
    ]


def _constructs(state: Any) -> list[str]:
    """The rules that are known to have begun: by a word or mark, or since nothing else may have."""
    under_way: dict[str, int] = {}
    for item in sorted(state, key=lambda item: (item.index, str(item.rule))):
        if item.index > 0:
            first = item.rule.expansion[0]
            begun = item.index > 1 or (first.is_term and first.name != "NAME")
            name = str(item.rule.alias or item.rule.origin.name)
            under_way[name] = item.index if begun else 0
    if len(under_way) > 1:
        under_way = {name: index for name, index in under_way.items() if index}
    return sorted(under_way, key=lambda name: (-under_way[name], name))


def _symbol(entry: tuple[str, Any]) -> str:
    return entry[0]


def _is_word(text: str) -> bool:
    return text.isidentifier() and text != "_"


def _digest(grammar: str) -> str:
    # It only tells a grammar from the one before it, and `hashlib` takes 3 ms to load.
    return f"{zlib.crc32(grammar.encode()):08x}"


def tables_text(grammar: str) -> str:
    """The text of `tables.json`: one rule or state a line, so that a change can be read."""
    content = make_tables(grammar, strict=True)
    parts = []
    for key, value in content.items():
        if isinstance(value, list):
            lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in value)
            parts.append(f"{json.dumps(key)}: [\n{lines}\n]")
        else:
            parts.append(f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    TABLES_FILE.write_text(
        tables_text((grammar_folder() / "mstar.lark").read_text(encoding="utf-8")),
        encoding="utf-8",
    )
