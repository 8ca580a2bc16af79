"""What a plan says of a prompt: the rows that a step reads, as many as a request says."""

from mstarc.plan.actions import CallOp
from mstarc.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """How a step's prompt is read in pieces: `of` are the variables whose rows are cut.

    A piece that is not the last is `call` alone, whose rows stay in `context`; of its results only
    those in `rows` are kept, which have a row for each of its rows. `is_shared`: rows depend on
    host-made whole numbers alone, so equal beginnings may share pages.
    """

    of: tuple[str, ...]
    node: str
    context: str
    op: str
    call: CallOp
    rows: tuple[str, ...]
    is_shared: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A call of a step that writes as many rows as a request says: `site` is the call's.

    `pieces` where it may be read in pieces, else `why_whole`; `why_own` where pages are not shared.
    """

    site: str
    pieces: Pieces | None = None
    why_whole: str = ""
    why_own: str = ""
