"""What bodies of device steps and of host steps share: lines, short names, what is kept behind."""

from typing import TYPE_CHECKING

from mstarc.codegen.pyrepr import LINE_LENGTH
from mstarc.ir.types import Type
from mstarc.plan.actions import Action, Repeat, definitions_of
from mstarc.plan.naming import identifier
from mstarc.plan.plan import RunStep
from mstarc.plan.step_facts import defined_in, used_in
from mstarc.records import dataclass

if TYPE_CHECKING:
    from mstarc.codegen.bodies import BodyWriter

INDENT = 8


@dataclass(slots=True, kw_only=True)
class Line:
    """One line of a body and the comment behind it."""

    code: str
    comment: str = ""
    depth: int = 0


class Body:
    """Names inside one step: short ones, as far as they tell its variables apart."""

    def __init__(self, writer: "BodyWriter", step: RunStep) -> None:
        self.writer = writer
        self.step = step
        self.out: list[Line] = []
        shorts: dict[str, list[str]] = {}
        for name in dict.fromkeys((*used_in(step.actions), *defined_in(step.actions))):
            shorts.setdefault(writer.variables[name].local, []).append(name)
        self.names = {
            name: short if len(names) == 1 else name
            for short, names in shorts.items()
            for name in names
        }
        self.loops = {loop.name: loop for loop in writer.rank.loops}
        self.collectors = {v.name for v in writer.variables.values() if v.storage == "collector"}

    def name(self, variable: str) -> str:
        """The short name of a variable."""
        return self.names[variable]

    def pass_of(self, loop: str) -> str:
        """The name of a loop's index, or of the part that its pass is at."""
        index = self.loops[loop].index
        assert index is not None
        name = identifier(index)
        return f"{name}_" if name in self.names.values() else name

    def type_of(self, variable: str) -> Type:
        """The type of a variable."""
        return self.writer.variables[variable].type

    def add(self, code: str, comment: str = "", depth: int = 0) -> None:
        """Add a line; `depth` counts the loops around it."""
        self.out.append(Line(code=code, comment=comment, depth=depth))

    def rendered(self) -> tuple[str, ...]:
        """The lines so far, each with its comment where that fits."""
        lines = []
        for line in self.out:
            indent = " " * (INDENT + 4 * line.depth)
            text = f"{indent}{line.code}"
            if line.comment and len(text) + 4 + len(line.comment) <= LINE_LENGTH:
                text += f"  # {line.comment}"
            lines.append(text)
        return tuple(lines)

    def stores_behind(self, actions: tuple[Action, ...], index: int) -> list[str]:
        """Variables that have their last value behind action `index`, and are kept."""
        later = set(defined_in(actions[index + 1 :]))
        action = actions[index]
        names = [*definitions_of(action)]
        if isinstance(action, Repeat):
            names = [*defined_in(action.body), *names]
        return [
            name
            for name in dict.fromkeys(names)
            if name in self.step.stores and name not in later and name not in self.collectors
        ]
