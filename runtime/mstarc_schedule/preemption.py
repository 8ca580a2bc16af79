"""Who gives up cache pages where there are too few: the youngest, and nobody for a younger one.

The oldest request never gives way, and pages are enough for it alone; so it ends, then the next
oldest does, and nobody waits for ever. Ages are the serial numbers of requests.
"""

from collections.abc import Collection


def gives_way(wanting: Collection[int], holding: Collection[int]) -> int:
    """Which request gives way, of those that want more pages and those that hold some.

    One of `wanting` waits with what it has; another one's pages go to host memory.

    >>> gives_way(wanting=[3, 5], holding=[3, 4, 5]), gives_way(wanting=[3], holding=[3, 4])
    (5, 4)
    """
    return max([*wanting, *holding])


def may_begin(request: int, waiting: Collection[int]) -> bool:
    """Whether a request without pages may take some: not before older ones that wait for some.

    It may be among those.

    >>> may_begin(7, waiting=[5, 7]), may_begin(5, waiting=[5, 7])
    (False, True)
    """
    return all(request <= other for other in waiting)


def last_resort(waiting: Collection[int], holding: Collection[int]) -> int | None:
    """Whose pages go to host memory where nobody goes on; None if only the oldest holds any.

    >>> last_resort(waiting=[2, 3], holding=[2, 3]), last_resort(waiting=[2, 3], holding=[2])
    (3, None)
    """
    oldest = min(waiting)
    return max((request for request in holding if request > oldest), default=None)
