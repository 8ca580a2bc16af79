"""A placement as a deployment file: what `--deployment` reads back to the same layout."""

from collections.abc import Sequence

from mstarc.analysis.control import calls_in
from mstarc.ir.decisions import Assignment, Placement
from mstarc.ir.graph import Program


def deployment_text(program: Program) -> str:
    """The YAML of a placed program. Nodes and walks have their names in the spec."""
    placement = program.placement
    assert placement is not None, "a program that is not placed"
    lines = [
        f"# {placement.name}, as `mstarc place` found it.",
        f"model: {program.model}",
        f"devices: {placement.name}",
        f"max_seq_len: {placement.max_tokens}",
        f"max_concurrent_requests: {placement.max_requests}",
        "node_groups:",
    ]
    groups: dict[tuple[str, ...], list[str]] = {}
    for assignment in placement.assignments:
        names = groups.setdefault(_settings(assignment, program, placement), [])
        names += _names(assignment, program)
    for settings, names in groups.items():
        lines += [f"  - node_names: [{', '.join(names)}]", *(f"    {line}" for line in settings)]
    return "\n".join(lines) + "\n"


def _names(assignment: Assignment, program: Program) -> list[str]:
    """The node, or the public names of its contexts that the assignment is of."""
    node = next(node for node in program.nodes if node.name == assignment.node)
    aliases = {context.name: context.aliases for context in node.contexts}
    found = [next(iter(aliases[name]), name) for name in assignment.contexts]
    return found or [assignment.node]


def _settings(assignment: Assignment, program: Program, placement: Placement) -> tuple[str, ...]:
    ranks = [*assignment.ranks, *_replicas(assignment, placement)]
    lines = [f"ranks: [{_listed(ranks)}]"]
    if assignment.tp > 1:
        lines.append(f"tp_size: {assignment.tp}")
    if assignment.sp > 1:
        lines.append(f"sp_size: {assignment.sp}")
    walks = assignment.walks or _left_over(assignment, program, placement)
    if walks:
        lines.append(f"graph_walks: [{', '.join(walks)}]")
    return tuple(lines)


def _left_over(assignment: Assignment, program: Program, placement: Placement) -> tuple[str, ...]:
    """The walks of an assignment that has those which others of its node leave.

    Empty where there is no such other: then a file needs to say nothing.
    """
    named = {
        walk
        for other in placement.assignments
        if other.node == assignment.node and other.contexts == assignment.contexts
        for walk in other.walks
    }
    if not named:
        return ()
    return tuple(
        walk.name
        for walk in program.walks
        if walk.name not in named
        and any(call.node == assignment.node for call in calls_in(program, walk.body))
    )


def _replicas(assignment: Assignment, placement: Placement) -> list[int]:
    """Devices of further copies of the group, one copy behind the other."""
    copies = [copy for copy in placement.copies if copy.rank in assignment.ranks]
    copies.sort(key=lambda copy: (copy.copy, assignment.ranks.index(copy.rank)))
    return [copy.device for copy in copies]


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
