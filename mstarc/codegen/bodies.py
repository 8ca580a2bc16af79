"""The methods of steps: what `prepare` makes room for; bodies (`device_body`, `host_body`)."""

from dataclasses import field

from mstarc.codegen.device_body import DeviceBody
from mstarc.codegen.host_body import HostBody
from mstarc.codegen.pyrepr import layout_call, pyrepr
from mstarc.codegen.step_body import INDENT
from mstarc.diagnostics import InternalError
from mstarc.ir.exprs import Const, Expr, LoopIndex, Option, TableItem
from mstarc.plan.actions import ClearContext, ForkContext
from mstarc.plan.naming import attribute, identifier
from mstarc.plan.plan import Constant, Grow, RankPlan, RunStep, Variable
from mstarc.plan.prompt import Pieces
from mstarc.plan.signatures import Signatures
from mstarc.records import dataclass


@dataclass(slots=True, kw_only=True)
class BodyWriter:
    """Writes the bodies of one rank. `used` collects the names that they need of machines.py."""

    rank: RankPlan
    variables: dict[str, Variable]
    signatures: Signatures
    used: set[str] = field(default_factory=set)

    def body(self, step: RunStep) -> tuple[str, ...]:
        """The lines of a step's method behind its docstring, indented."""
        if step.kind == "host":
            return HostBody(self, step).lines()
        return DeviceBody(self, step).lines()

    def piece(self, step: RunStep, pieces: Pieces) -> tuple[str, ...]:
        """The lines of the method that reads a piece of a step's prompt."""
        return DeviceBody(self, step).piece(pieces)

    def prepare(self, step: RunStep) -> tuple[str, ...]:
        """The lines of a step's prepare method; none where it needs none."""
        lines = []
        for item in step.prepares:
            head = f"self.{attribute(item.node)}"
            match item:
                case ForkContext(source=source, target=target):
                    arguments = ["b", pyrepr(source), pyrepr(target)]
                    arguments += self._index("source_index", item.source_index)
                    arguments += self._index("target_index", item.target_index)
                    code = layout_call(f"{head}.fork", arguments, INDENT)
                case ClearContext(context=context, index=index):
                    arguments = ["b", pyrepr(context), *self._index("index", index)]
                    code = layout_call(f"{head}.clear", arguments, INDENT)
                case Grow():
                    method = "grow" if item.kept else "peek"
                    code = layout_call(f"{head}.{method}", self._rows(item), INDENT)
            lines.append(f"{' ' * INDENT}{code}")
        return tuple(lines)

    def _rows(self, grow: Grow) -> list[str]:
        axis = ", axis=1" if grow.axis else ""
        of = grow.of
        rows = str(grow.rows) if of is None else f"self.{attribute(of)}.lengths(b{axis})"
        if grow.count is not None:
            rows = self._number(grow.count)
        arguments = ["b", rows]
        contexts = self.signatures.nodes[grow.node].contexts
        if contexts and (grow.context != contexts[0].name or contexts[0].count is not None):
            arguments.append(f"context={pyrepr(grow.context)}")
        arguments += self._index("index", grow.index)
        if isinstance(grow.advance, int):
            arguments.append(f"advance={grow.advance}")
        elif grow.advance is not None:
            arguments.append(f"advance={self._number(grow.advance)}")
        return arguments

    def _index(self, name: str, index: Expr | None) -> list[str]:
        """Which context of an array is meant, as an argument: a number, or one a request."""
        match index:
            case None:
                return []
            case Const(int(value)):
                return [f"{name}={value}"]
            case _:
                return [f"{name}={self._chosen(index)}"]

    def _number(self, number: str | Expr) -> str:
        """A number of each request that the host knows: a value of its, or what admission has."""
        if isinstance(number, str):
            return f"self.{attribute(number)}.numbers(b)"
        return self._chosen(number)

    def _chosen(self, number: Expr) -> str:
        """A number of each request, which admission has computed."""
        match number:
            case Option(option):
                return f"b.chosen({pyrepr(option)})"
            case TableItem(table, LoopIndex(loop)):
                return f"b.chosen({pyrepr(table)}, self.{identifier(loop)})"
            case _:
                raise InternalError(f"not known to the host: {number}", stage="codegen")

    def constant(self, const: Const) -> str:
        """The attribute of a config list on the device."""
        numbers = const.value
        assert isinstance(numbers, tuple)
        found: Constant = next(c for c in self.rank.constants if c.value == numbers)
        return found.name
