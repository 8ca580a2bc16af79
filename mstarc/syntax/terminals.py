"""What a token is to the grammar, as far as the token itself tells."""

from mstarc.source import SourceFile
from mstarc.syntax.tables import Tables
from mstarc.syntax.tokens import Token

_COMPARISONS = frozenset(("==", "!=", "<", "<=", ">", ">="))


def mark_terminal(text: str, tables: Tables) -> str | None:
    """The terminal of a punctuation mark; none for one that the grammar does not have."""
    return "CMP" if text in _COMPARISONS else tables.marks.get(text)


def begins_domain(source: SourceFile, token: Token) -> bool:
    """Whether what follows the word `in` can only be the values that an option may have."""
    rest = source.text[token.end : token.end + 400].lstrip()
    while rest.startswith("#"):
        rest = rest.partition("\n")[2].lstrip()
    return rest[:1] in ("-", "\u2212", "[", '"') or rest[:1].isdigit()
