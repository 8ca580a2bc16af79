"""Ways over a whole tree that need not know its node types."""

from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import Any

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
    # Trees are walked often, and `fields` builds its answer anew each time.
    return tuple(item.name for item in fields(kind) if item.name != "span")


def descendants(node: Node) -> Iterator[Node]:
    """`node` and all nodes under it, parents first."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        waiting.extend(reversed(list(children(current))))


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
