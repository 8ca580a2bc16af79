"""The names that a body sees while it is cut into steps."""

from mstarc.ir.exprs import Expr
from mstarc.plan.draft import Place


class Scope:
    """The names that a body sees: values of a walk, or registers. `prefix` makes them unique."""

    def __init__(self, place: Place, prefix: str) -> None:
        self.place = place
        self.prefix = prefix
        self.values: dict[str, Expr] = {}

    @property
    def is_machine(self) -> bool:
        """Whether names are the machine's registers."""
        return self.place.walk is None
