"""Parse what the passes have decided: the inverse of `print_decisions`."""

from typing import cast, get_args

from mstarc.ir.decisions import (
    PREFILL_TOKENS,
    Assignment,
    Capacity,
    Copy,
    Device,
    Hop,
    MemoryKind,
    MemoryRow,
    PagePool,
    Placement,
    Region,
    Uncaptured,
)
from mstarc.ir.text.lexer import Cursor, TokenKind

_MEMORY: tuple[str, ...] = get_args(MemoryKind)


def _setting(cursor: Cursor, word: str) -> int:
    cursor.expect(word)
    return cursor.integer()


def _integers(cursor: Cursor, close: str) -> tuple[int, ...]:
    items: list[int] = []
    while not cursor.accept(close):
        items.append(cursor.integer())
        if not cursor.at(close):
            cursor.expect(",")
    return tuple(items)


def _tokens(cursor: Cursor, kind: TokenKind, what: str) -> tuple[str, ...]:
    items: list[str] = []
    cursor.expect("(")
    while not cursor.accept(")"):
        items.append(cursor.kind(kind, what))
        if not cursor.at(")"):
            cursor.expect(",")
    return tuple(items)


def _site(cursor: Cursor) -> str:
    return cursor.kind("site", "a site such as `#walk/0`")


def parse_placement(cursor: Cursor) -> Placement:
    """After `placement`."""
    name = cursor.string()
    cursor.expect("by")
    source = cursor.string()
    max_requests = _setting(cursor, "requests")
    max_tokens = _setting(cursor, "tokens")
    stretch = cursor.integer() if cursor.accept("stretch") else 0
    prefill = cursor.integer() if cursor.accept("prefill") else PREFILL_TOKENS
    cursor.expect("{")
    devices: list[Device] = []
    assignments: list[Assignment] = []
    copies: list[Copy] = []
    while not cursor.accept("}"):
        if cursor.accept("device"):
            rank = cursor.integer()
            kind = cursor.string()
            memory = _setting(cursor, "bytes")
            devices.append(Device(rank=rank, kind=kind, memory_bytes=memory))
        elif cursor.accept("copy"):
            number = cursor.integer()
            cursor.expect("of")
            rank = _setting(cursor, "rank")
            copies.append(Copy(rank=rank, copy=number, device=_setting(cursor, "device")))
        else:
            cursor.expect("assign")
            assignments.append(_assignment(cursor))
    return Placement(
        name=name,
        devices=tuple(devices),
        assignments=tuple(assignments),
        copies=tuple(copies),
        source=source,
        max_requests=max_requests,
        max_tokens=max_tokens,
        stretch=stretch,
        prefill_tokens=prefill,
    )


def _assignment(cursor: Cursor) -> Assignment:
    node = cursor.name()
    walks = _names(cursor) if cursor.accept("walks") else ()
    contexts = _names(cursor) if cursor.accept("contexts") else ()
    cursor.expect("ranks")
    cursor.expect("[")
    return Assignment(
        node=node,
        walks=walks,
        contexts=contexts,
        ranks=_integers(cursor, "]"),
        tp=cursor.integer() if cursor.accept("tp") else 1,
        sp=cursor.integer() if cursor.accept("sp") else 1,
    )


def _names(cursor: Cursor) -> tuple[str, ...]:
    items: list[str] = []
    cursor.expect("(")
    while not cursor.accept(")"):
        items.append(cursor.name())
        if not cursor.at(")"):
            cursor.expect(",")
    return tuple(items)


def _contexts(cursor: Cursor) -> tuple[tuple[str, str], ...]:
    items: list[tuple[str, str]] = []
    cursor.expect("(")
    while not cursor.accept(")"):
        node = cursor.name()
        items.append((node, cursor.string()))
        if not cursor.at(")"):
            cursor.expect(",")
    return tuple(items)


def parse_hop(cursor: Cursor) -> Hop:
    """After `hop`."""
    machine = cursor.name()
    source_site = _site(cursor)
    cursor.expect("->")
    target_site = _site(cursor)
    source_rank = _setting(cursor, "rank")
    cursor.expect("->")
    target_rank = cursor.integer()
    cursor.expect("values")
    values = _tokens(cursor, "value", "a value such as `%x`")
    cursor.expect("bytes")
    bytes_each = None if cursor.accept("?") else cursor.integer()
    has_contexts = cursor.accept("contexts")
    contexts = _contexts(cursor) if has_contexts else ()
    return Hop(
        machine=machine,
        source_site=source_site,
        target_site=target_site,
        source_rank=source_rank,
        target_rank=target_rank,
        values=values,
        bytes_each=bytes_each,
        contexts=contexts,
        row_bytes=_setting(cursor, "row_bytes") if has_contexts else 0,
    )


def parse_region(cursor: Cursor) -> Region:
    """After `region`."""
    name = cursor.string()
    rank = _setting(cursor, "rank")
    cursor.expect("walk")
    walk = cursor.name()
    cursor.expect("sites")
    sites = _tokens(cursor, "site", "a site such as `#walk/0`")
    cursor.expect("buckets")
    cursor.expect("(")
    buckets = _integers(cursor, ")")
    return Region(name=name, rank=rank, walk=walk, sites=sites, buckets=buckets)


def parse_uncaptured(cursor: Cursor) -> Uncaptured:
    """After `uncaptured`."""
    return Uncaptured(site=_site(cursor), reason=cursor.string())


def parse_pool(cursor: Cursor) -> PagePool:
    """After `pool`."""
    rank = _setting(cursor, "rank")
    node = cursor.name()
    return PagePool(
        rank=rank,
        node=node,
        pages=_setting(cursor, "pages"),
        page_tokens=_setting(cursor, "page_tokens"),
        bytes_per_page=_setting(cursor, "page_bytes"),
    )


def parse_memory(cursor: Cursor) -> MemoryRow:
    """After `memory`."""
    rank = _setting(cursor, "rank")
    what = cursor.name("what the memory is for")
    if what not in _MEMORY:
        raise cursor.fail(f"one of {', '.join(_MEMORY)} before it")
    return MemoryRow(
        rank=rank,
        what=cast(MemoryKind, what),
        of=cursor.string(),
        bytes=cursor.integer(),
        by=cursor.string() if cursor.accept("by") else "",
    )


def parse_capacity(cursor: Cursor) -> Capacity:
    """After `capacity`."""
    return Capacity(
        asked=_setting(cursor, "asked"),
        full=_setting(cursor, "full"),
        expected=_setting(cursor, "expected"),
        rank=_setting(cursor, "rank"),
    )
