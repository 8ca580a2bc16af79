"""Names that people read: of steps, of registers, of variables inside a step."""

import keyword
from collections import Counter
from collections.abc import Iterable, Mapping, Set

from mstarc.plan.draft import Draft
from mstarc.plan.words import base_name

RESERVED = frozenset(
    ("b", "batch", "job", "more", "self", "slot", "ends", "where", "int", "float", "range", "tuple")
)

ATTRIBUTES = frozenset(("rank", "ops", "options", "build", "release"))
"""What every rank has."""


def identifier(name: str) -> str:
    """A Python name: no keyword, and none that bodies of steps use themselves."""
    name = name.replace(".", "_")
    return f"{name}_" if keyword.iskeyword(name) or name in RESERVED else name


def attribute(name: str) -> str:
    """The attribute of a rank that holds a node, a stream or a constant of this name."""
    name = identifier(name)
    return f"{name}_" if name in ATTRIBUTES else name


def variable_names(
    machine: str,
    groups: Mapping[str, Iterable[str]],
    hints: Mapping[str, str],
    carried: Set[str],
    attributes: Set[str],
) -> dict[str, tuple[str, str]]:
    """(name in the plan, name in a step) of each variable, by what its members are called.

    A register's own name comes first, then what a loop carries, then the commonest name of the
    walks' values. `attributes` are names that a rank has already.
    """
    wishes: dict[str, list[str]] = {}
    for variable, members in groups.items():
        members = list(members)
        registers = [hints[m] for m in members if m in hints]
        registers += [m for m in members if "." not in m]
        counts = Counter(base_name(member).rsplit(".", 1)[-1] for member in members)
        carries = [base_name(member).rsplit(".", 1)[-1] for member in members if member in carried]
        short = (registers or carries or [name for name, _ in counts.most_common()])[0]
        walk = next((m.split(".")[0] for m in members if "." in m), "")
        wishes[variable] = [short, f"{walk}_{short}" if walk else short]
    taken: set[str] = set()
    names: dict[str, tuple[str, str]] = {}
    for variable, (short, long) in sorted(
        wishes.items(), key=lambda item: item[0] not in hints and "." in item[0]
    ):
        name = short if short not in taken else long
        count = 1
        while name in taken:
            count += 1
            name = f"{long}_{count}"
        taken.add(name)
        full = f"{machine}_{identifier(name)}"
        while full in attributes:
            full += "_"
        names[variable] = (full, identifier(short))
    return names


def step_names(drafts: list[Draft]) -> dict[Draft, str]:
    """`speak.begin.encode`, `speak.decode.pass`: machine, state, walk, what tells them apart."""
    stems = {draft: _stem(draft) for draft in drafts}
    shared = Counter(stems[draft] for draft in drafts if not draft.role)
    names: dict[Draft, str] = {}
    taken: set[str] = set()
    for draft in drafts:
        name = stems[draft]
        call = draft.calls[0].op if draft.calls else None
        if draft.kind == "done":
            name = f"{draft.place.machine}.done"
        elif draft.kind == "branch":
            name += f".{draft.role}" if draft.role else ".choose"
        elif draft.kind in ("spread", "join"):
            name += f".{draft.kind}"
        elif draft.mark is not None:
            name += f".mark_{draft.mark[1]}"
        elif draft.role:
            name += f".{draft.role}"
        elif draft.place.walk is None or shared[name] > 1:
            name += f".{call or 'then'}"
        base, count = name, 1
        while name in taken:
            count += 1
            name = f"{base}.{count}"
        taken.add(name)
        names[draft] = name
    return names


def _stem(draft: Draft) -> str:
    place = draft.place
    parts = [place.machine, place.state]
    if place.walk is not None and place.walk != place.state:
        parts.append(place.walk)
    return ".".join(parts)
