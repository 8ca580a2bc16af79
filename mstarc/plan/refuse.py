"""How this stage says that a construct of the language has no code yet."""

from mstarc.diagnostics import Diagnostic, Label
from mstarc.source import Span

NOT_BUILT = "MS0590"


class NotBuiltError(Exception):
    """Ends the making of a plan; `build_plan` turns it into its diagnostic."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


def not_built(construct: str, span: Span, why: str = "", remedy: str = "") -> NotBuiltError:
    """The error that plans have no code for `construct`, which stands at `span`."""
    diagnostic = Diagnostic(
        code=NOT_BUILT,
        message=f"{construct} is not compiled yet",
        primary=Label(span=span, text=why),
        notes=("the spec is sound: `mstarc check` and `mstarc lint` accept it",),
    )
    return NotBuiltError(diagnostic.help(remedy) if remedy else diagnostic)
