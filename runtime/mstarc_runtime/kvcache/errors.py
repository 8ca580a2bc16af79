"""What a cache refuses. Each is raised before anything was changed, so a caller may retry."""


class OutOfPages(Exception):
    """The pool has too few free pages for a call: wait, or take some from another request."""

    def __init__(self, *, needed: int, free: int) -> None:
        super().__init__(f"{needed} pages are needed and {free} are free")
        self.needed = needed
        self.free = free


class ContextFull(Exception):
    """A request would hold more rows in a context than its page table has room for."""

    def __init__(self, *, slot: int, context: str, rows: int, limit: int) -> None:
        super().__init__(
            f"context `{context}` of slot {slot} would hold {rows} rows, and {limit} fit"
        )
        self.slot = slot
        self.context = context
        self.rows = rows
        self.limit = limit
