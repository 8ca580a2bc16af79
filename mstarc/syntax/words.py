"""The words that values cannot be named by, and what the others are."""

STATEMENT_WORDS = (
    *("send", "emit", "loop", "parallel", "when", "fork", "release", "run", "pull"),
    *("for", "match", "each", "mark", "let", "next"),
)
_EXPRESSION_WORDS = (
    *("and", "or", "not", "in", "if", "else", "on", "wants", "has"),
    *("true", "false", "none"),
)

RESERVED = frozenset((*STATEMENT_WORDS, *_EXPRESSION_WORDS))
"""Words that are never names of values. Others are words only where the grammar takes them."""
