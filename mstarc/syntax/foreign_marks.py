"""Marks, quotes, comments and numbers of other languages, and of texts that went through a word
processor: what to say of them, and what is meant."""

import re

FOREIGN_MARKS: dict[str, tuple[str, str]] = {
    "&&": ("`and` joins conditions", "and"),
    "||": ("`or` joins conditions", "or"),
    "!": ("`not` negates a condition", "not"),
    "=>": ("results are written after `->`", "->"),
    ":=": ("values are given with `=`", "="),
    "\u2190": ("the arrow is written `<-`", "<-"),
    "\u2192": ("the arrow is written `->`", "->"),
    "\u2264": ("written `<=`", "<="),
    "\u2265": ("written `>=`", ">="),
    "\u2260": ("written `!=`", "!="),
    "\u2212": ("the minus is written `-`", "-"),
    "\u2010": ("the minus is written `-`", "-"),
    "\u2013": ("the minus is written `-`", "-"),
    "\u2014": ("the minus is written `-`", "-"),
    "\u2026": ("a range has two dots", ".."),
    "...": ("a range has two dots", ".."),
    "\u00d7": ("`*` multiplies", "*"),
    "\u00f7": ("`/` divides", "/"),
    "\uff1a": ("the colon is written `:`", ":"),
    "\uff0c": ("the comma is written `,`", ","),
    "\uff1d": ("the mark is written `=`", "="),
    "\uff08": ("the parenthesis is written `(`", "("),
    "\uff09": ("the parenthesis is written `)`", ")"),
    "\uff5b": ("the brace is written `{`", "{"),
    "\uff5d": ("the brace is written `}`", "}"),
    "\uff1b": ("statements need no such mark", ""),
    ";": ("drop it", ""),
}
"""By mark: what to say, and the text that is meant (empty: none)."""

FOREIGN_COMMENTS: dict[str, str] = {
    "/*": "*/",
    "<!--": "-->",
    '"""': '"""',
    "'''": "'''",
    "-- ": "\n",
}
"""How comments of other languages begin, and how they end. None of them fits anywhere in a spec."""

INVISIBLE = "\u200b\u200c\u200d\u2060\u00ad\ufeff"
"""Characters that no one sees, and that come along with copied text."""

_UNITS = {unit.lower(): unit for unit in ("B", "KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB")}
_BASES = re.compile(r"0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|[0-9]+(?:_[0-9]+)+")


def meant_number(written: str) -> str | None:
    """What a number in the writing of another language is here, where that is certain.

    >>> meant_number("0x10"), meant_number("1_000"), meant_number("6GB"), meant_number("3b")
    ('16', '1000', '6 GB', None)
    >>> meant_number("3gb"), meant_number("24kHz"), meant_number("48khz")
    ('3 GB', '24000', '48000')
    """
    if _BASES.fullmatch(written):
        return str(int(written.replace("_", ""), 0 if written[1:2].isalpha() else 10))
    digits = written.rstrip("BKMGTibkmgtHhz")
    unit = written[len(digits) :]
    if unit.lower() == "khz" and digits.isdigit():
        return f"{digits}000"
    # `3b` may be any name's end.
    if unit.lower() in _UNITS and (len(unit) > 1 or unit == "B"):
        return f"{digits} {_UNITS[unit.lower()]}"
    return None
