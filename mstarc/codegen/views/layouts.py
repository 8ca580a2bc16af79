"""Who is where, in words: groups of ranks, replicas, processes."""

from mstarc.codegen.views.amounts import count_of
from mstarc.codegen.views.tables import table
from mstarc.ir.decisions import Assignment, Placement


def where_words(found: tuple[Assignment, ...]) -> str:
    """`0`, `0 + 1 (tp 2)`, or `0 in start; 1 in decode`."""
    return "; ".join(map(_group_words, found))


def _group_words(assignment: Assignment) -> str:
    words = " + ".join(map(str, assignment.ranks))
    cuts = cut_words(assignment)
    words += f" ({cuts})" if cuts else ""
    contexts = [f"`{name}`" for name in assignment.contexts]
    words += f" for {', '.join(contexts)}" if contexts else ""
    walks = [f"`{name}`" for name in assignment.walks]
    return words + (f" in {', '.join(walks)}" if walks else "")


def cut_words(assignment: Assignment) -> str:
    """`tp 2, sp 2`; empty for a node that is whole."""
    cuts = [f"tp {assignment.tp}"] if assignment.tp > 1 else []
    cuts += [f"sp {assignment.sp}"] if assignment.sp > 1 else []
    return ", ".join(cuts)


def device_words(placement: Placement) -> str:
    """The ranks and the kind of their devices; which they are where not numbered from 0."""
    ranks = placement.ranks
    kinds = list(dict.fromkeys(device.kind for device in placement.devices))
    words = f"{count_of(len(ranks), 'rank')} of {' and '.join(f'`{kind}`' for kind in kinds)}"
    if placement.copies:
        words += f", {len(ranks) + len(placement.copies)} processes with replicas"
    elif ranks != tuple(range(len(ranks))):
        words += f" ({', '.join(map(str, ranks))})"
    return words


def processes(placement: Placement) -> tuple[str, ...]:
    """A table of all processes; none where each rank is one that stands alone."""
    groups = [assignment for assignment in placement.assignments if len(assignment.ranks) > 1]
    if not groups and not placement.copies:
        return ()
    places = [(0, rank, rank) for rank in placement.ranks]
    places += sorted((c.copy, c.rank, c.device) for c in placement.copies)
    rows = [
        [str(number), str(rank), str(copy), str(device), _does(rank, groups)]
        for number, (copy, rank, device) in enumerate(places)
    ]
    head = ["process", "rank", "copy", "device", "groups"]
    note = "A request stays with one copy of each rank: the one with the fewest requests."
    lines = table(head, rows, "rrrr")
    return (*lines, "", note) if placement.copies else tuple(lines)


def beside(placement: Placement, rank: int) -> str:
    """What else there is to say of a rank: its groups and its replicas."""
    groups = [assignment for assignment in placement.assignments if len(assignment.ranks) > 1]
    words = _does(rank, groups).replace("`", "")
    devices = [str(copy.device) for copy in placement.copies if copy.rank == rank]
    if devices:
        words += f"{', ' if words else ''}copied on device {', '.join(devices)}"
    return f"; {words}" if words else ""


def _does(rank: int, groups: list[Assignment]) -> str:
    words = []
    for group in groups:
        cut = f"`{group.node}` ({cut_words(group)})"
        if group.ranks[0] == rank:
            words.append(f"leads {cut}")
        elif rank in group.ranks:
            words.append(f"serves {cut} for rank {group.ranks[0]}")
    return ", ".join(words)
