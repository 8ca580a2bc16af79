"""What every node of the syntax tree has, and the names in it."""

from mstarc.records import dataclass
from mstarc.source import Span


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """A piece of a spec. `span` is the text that it was read from; zero-width where it has none.

    Nodes compare and hash by identity, so that side tables may be keyed by them: the same text
    at two places is two nodes. `same_tree` compares by content.
    """

    span: Span


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Name(Node):
    """An identifier where it stands, both where it is declared and where it is used."""

    text: str
