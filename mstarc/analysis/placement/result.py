"""A layout of numbers → assignments and copies: which devices its ranks and their copies get.

Ranks are numbered like their devices, in the order in which a request reaches them. A set of
several ranks stays within one host where one has room; then come further copies, in the same way.
"""

from collections.abc import Sequence

from mstarc.analysis.placement.model import Model, Part
from mstarc.analysis.placement.problem import Home, Layout
from mstarc.deployment import Devices
from mstarc.ir.decisions import Assignment, Copy
from mstarc.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """`numbers` are the devices of the layout's ranks, in order."""

    assignments: tuple[Assignment, ...]
    copies: tuple[Copy, ...]
    numbers: tuple[int, ...]


def chosen(model: Model, layout: Layout, devices: Devices) -> Chosen:
    """The layout on devices. Nodes of engine `host` are not part of it."""
    free = list(range(devices.count))
    reached = [rank for name in model.flow for rank in layout.homes[name].ranks]
    # Where there are only host nodes, a request reaches nothing.
    place = {rank: index for index, rank in reversed(list(enumerate(reached)))}
    order = sorted(
        range(len(layout.sets)),
        key=lambda index: min(place.get(rank, len(reached)) for rank in layout.sets[index]),
    )
    numbers: dict[int, int] = {}
    copies: list[Copy] = []
    for index in order:
        ranks = layout.sets[index]
        block = _take(free, len(ranks), layout.kinds[ranks[0]], devices)
        numbers.update(zip(ranks, block, strict=True))
    for index in order:
        ranks = layout.sets[index]
        for copy in range(1, layout.copies[index]):
            block = _take(free, len(ranks), layout.kinds[ranks[0]], devices)
            for rank, device in zip(ranks, block, strict=True):
                copies.append(Copy(rank=numbers[rank], copy=copy, device=device))
    return Chosen(
        assignments=_assignments(model, layout, numbers),
        copies=tuple(sorted(copies, key=lambda copy: (copy.rank, copy.copy))),
        numbers=tuple(numbers[rank] for rank in range(len(layout.kinds))),
    )


def _take(free: list[int], count: int, kind: int, devices: Devices) -> list[int]:
    """Removes devices of a kind from those that are free: of one host if any has so many."""
    wanted = devices.kinds[kind]
    hosts: dict[int, list[int]] = {}
    for device in free:
        if devices.device(device) == wanted:
            hosts.setdefault(devices.host(device), []).append(device)
    roomy = next((found for found in hosts.values() if len(found) >= count), None)
    block = (roomy or [device for found in hosts.values() for device in found])[:count]
    assert len(block) == count, "a layout of more devices than there are"
    for device in block:
        free.remove(device)
    return block


def _assignments(model: Model, layout: Layout, numbers: dict[int, int]) -> tuple[Assignment, ...]:
    """Of each node with pieces; those that name walks and contexts behind the usual one."""
    found: list[Assignment] = []
    for node in dict.fromkeys(part.node for part in model.parts.values()):
        parts = [part for part in model.parts.values() if part.node == node]
        usual = layout.homes[parts[0].name]
        found.append(_assignment(node, usual, (), (), numbers))
        for part in parts[1:]:
            home = layout.homes[part.name]
            if home != usual or _needs_its_own(part, parts, layout):
                found.append(_assignment(node, home, part.walks, part.contexts, numbers))
    return tuple(found)


def _needs_its_own(part: Part, parts: Sequence[Part], layout: Layout) -> bool:
    """Whether the rest of the part's walk is elsewhere than the node usually is."""
    usual = layout.homes[parts[0].name]
    rest = [p for p in parts if set(part.walks) <= set(p.walks) and not p.contexts]
    return bool(part.contexts) and any(layout.homes[p.name] != usual for p in rest)


def _assignment(
    node: str,
    home: Home,
    walks: tuple[str, ...],
    contexts: tuple[str, ...],
    numbers: dict[int, int],
) -> Assignment:
    ranks = tuple(numbers[rank] for rank in home.ranks)
    option = home.option
    return Assignment(
        node=node, ranks=ranks, walks=walks, contexts=contexts, tp=option.tp, sp=option.sp
    )
