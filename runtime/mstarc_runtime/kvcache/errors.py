"""What a cache refuses. Each is raised before anything was changed, so a caller may retry."""


class OutOfPages(Exception):
    """The pool has too few free pages for a call: wait, or take some from another request."""

    def __init__(self, *, needed: int, free: int, pool: object = None) -> None:
        super().__init__(f"{needed} pages are needed and {free} are free")
        self.needed = needed
        self.free = free
        # The allocator that has too few, so that whoever makes room knows where.
        self.pool = pool


class ContextError(Exception):
    """A request asks of a context what it cannot have."""

    def __init__(self, message: str, *, slot: int, context: str) -> None:
        super().__init__(message)
        self.slot = slot
        self.context = context


class NoSuchContext(ContextError):
    """A request chooses a context that its array does not have."""

    def __init__(self, *, slot: int, context: str, index: int, count: int) -> None:
        message = f"there is no context `{context}[{index}]`: the request has {count}, from 0"
        super().__init__(message, slot=slot, context=context)


class ContextFull(ContextError):
    """A request would hold more rows in a context than its page table has room for."""

    def __init__(self, *, slot: int, context: str, rows: int, limit: int) -> None:
        message = f"context `{context}` of slot {slot} would hold {rows} rows, and {limit} fit"
        super().__init__(message, slot=slot, context=context)
        self.rows = rows
        self.limit = limit
