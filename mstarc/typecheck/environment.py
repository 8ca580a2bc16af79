"""What is known at one place in a body: which values are set, and which conditions hold."""

from dataclasses import field

from mstarc.names import Symbol
from mstarc.records import dataclass
from mstarc.source import Span
from mstarc.typecheck.logic import TRUE
from mstarc.typecheck.types import Type


@dataclass(frozen=True, slots=True)
class Held:
    """A value: its type, when it is there (a formula), and where it was set."""

    type: Type
    present: int
    span: Span


@dataclass(frozen=True, slots=True)
class Lost:
    """Why a value that is set somewhere is not seen here. `code` is the diagnostic's."""

    code: str
    span: Span
    reason: str
    help: str


@dataclass(slots=True)
class Env:
    """A place in a body. `facts` is a formula that holds there; `item` is a stream's item."""

    values: dict[Symbol, Held] = field(default_factory=dict)
    lost: dict[Symbol, Lost] = field(default_factory=dict)
    facts: int = TRUE
    item: Type | None = None

    def copy(self) -> "Env":
        """The same place, to go on from in two ways."""
        return Env(dict(self.values), dict(self.lost), self.facts, self.item)

    def under(self, facts: int) -> "Env":
        """The same place where `facts` hold as well; they must include those that held before."""
        return Env(dict(self.values), dict(self.lost), facts, self.item)

    def set(self, symbol: Symbol, held: Held) -> None:
        """Note that a value is set."""
        self.values[symbol] = held
        self.lost.pop(symbol, None)
