"""Ways over a whole tree that need not know its node types."""

from collections.abc import Iterator
from dataclasses import fields
from functools import cache, lru_cache
from types import NoneType
from typing import Any, get_args

from mstarc.syntax.ast.base import Node


def children(node: Node) -> Iterator[Node]:
    """The nodes directly under `node`, in the order of its fields."""
    kind: Any = type(node)
    for name in _field_names(kind):
        value = getattr(node, name)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            yield from (entry for entry in value if isinstance(entry, Node))


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    # Trees are walked often, and `fields` builds its answer anew each time. A name, which half of
    # all nodes are, holds only a text.
    return tuple(i.name for i in fields(kind) if i.name != "span" and not _is_plain(i.type))


def _is_plain(type_: object) -> bool:
    """Whether a field of this type never holds a node."""
    return all(part in (str, int, float, bool, NoneType) for part in get_args(type_) or (type_,))


def descendants(node: Node) -> Iterator[Node]:
    """`node` and all nodes under it, parents first."""
    return iter(_descendants(node))


# The checker asks for those of a body again and again, for one thing after another.
@lru_cache(maxsize=2048)
def _descendants(node: Node) -> tuple[Node, ...]:
    found: list[Node] = []
    waiting = [node]
    # As `children` does it, without a generator for every node.
    while waiting:
        current = waiting.pop()
        found.append(current)
        kind: Any = current.__class__
        for name in _reversed_field_names(kind):
            value = getattr(current, name)
            if value.__class__ is tuple:
                waiting += [entry for entry in value[::-1] if isinstance(entry, Node)]
            elif isinstance(value, Node):
                waiting.append(value)
    return tuple(found)


@cache
def _reversed_field_names(kind: Any) -> tuple[str, ...]:
    return _field_names(kind)[::-1]


def same_tree(left: object, right: object) -> bool:
    """Whether two trees say the same; only spans may differ."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(same_tree, left, right))
    if not isinstance(left, Node) or not isinstance(right, Node):
        return type(left) is type(right) and left == right
    if type(left) is not type(right):
        return False
    return all(
        same_tree(getattr(left, item.name), getattr(right, item.name))
        for item in fields(left)
        if item.name != "span"
    )
