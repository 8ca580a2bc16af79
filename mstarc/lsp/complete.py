"""What could be written at a place.

The parser says which words of the language and whether a name can come there, from the text of the
declaration up to that place; the tokens before it say what kind of name. What those names are comes
from the last inspection, so that an unfinished line still knows its walk's values.
"""

import re

from mstarc.driver import Inspection
from mstarc.lsp.expected_names import Place
from mstarc.lsp.index import Index
from mstarc.lsp.items import Item
from mstarc.lsp.words import WORDS
from mstarc.source import SourceFile
from mstarc.syntax.parser import taken_after

_PARTIAL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[A-Za-z_]\w*|\d[\w.]*|<-|->|\.\.|[^\s\w]')
_BEGIN = re.compile(
    r"^(?:config|variant|request|need|let|table|folded|node|stream|walk|machine)\b", re.MULTILINE
)
_HEAD = "mstar 1\nmodel m\n"


def complete(
    inspection: Inspection, index: Index, source: SourceFile, offset: int
) -> tuple[Item, ...]:
    """What could be written at `offset` of a text that is perhaps newer than the inspection."""
    before = source.text[:offset]
    line = before[before.rfind("\n") + 1 :]
    if _is_in_comment_or_string(line):
        return ()
    partial = _PARTIAL.search(before)
    start = partial.start() if partial is not None else offset
    begin = max((found.start() for found in _BEGIN.finditer(before, 0, start)), default=0)
    text = before[begin:start] if begin else before[:start]
    tokens = _TOKEN.findall(re.sub(r"#[^\n]*", "", text))
    taken = taken_after(SourceFile(path=source.path, text=_HEAD + text if begin else text))
    place = Place(inspection, index, tokens, begin, offset)
    items = [*place.names(taken)]
    if taken is not None and (not tokens or tokens[-1] != "."):
        items.extend(
            Item(label=word, kind="word", detail="", doc=WORDS.get(word))
            for word in sorted(taken - place.words_out_of_place())
            if word.isalpha() and word.islower() and not place.is_closed
        )
    return tuple({item.label: item for item in reversed(items)}.values())[::-1]


def _is_in_comment_or_string(line: str) -> bool:
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", line)
    return "#" in bare or '"' in bare
