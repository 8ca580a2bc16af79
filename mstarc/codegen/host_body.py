"""The body of a host step: code for one request, line by line."""

from typing import TYPE_CHECKING

from mstarc.codegen.expressions import HostExprs
from mstarc.codegen.pyrepr import layout_call, pyrepr
from mstarc.codegen.step_body import INDENT, Body, Line
from mstarc.plan.actions import Action, CallOp, EmitValue, Move, Read
from mstarc.plan.naming import attribute, identifier
from mstarc.plan.plan import RunStep
from mstarc.plan.words import type_text

if TYPE_CHECKING:
    from mstarc.codegen.bodies import BodyWriter


class HostBody(Body):
    """Names and lines of one host step."""

    def __init__(self, writer: "BodyWriter", step: RunStep) -> None:
        super().__init__(writer, step)
        self.exprs = HostExprs(self.name, self.part_of, self.number_of, writer.used)
        self.parts: list[str] = []

    def lines(self) -> tuple[str, ...]:
        """The lines behind the docstring, indented."""
        for name in self.step.loads:
            self.add(f"{self.name(name)} = self.{name}.get(job)", type_text(self.type_of(name)))
        for index, action in enumerate(self.step.actions):
            self._action(action)
            for name in self.stores_behind(self.step.actions, index):
                self.add(f"self.{name}.set(job, {self.name(name)})")
        for loop in self.parts:
            part = f"job.input({pyrepr(self.loops[loop].over)})[{self.number_of(loop)}]"
            self.out.insert(0, Line(code=f"{self.pass_of(loop)} = {part}"))
        return self.rendered()

    def part_of(self, loop: str) -> str:
        """The name of the part that a pass is at, which is looked up first."""
        if loop not in self.parts:
            self.parts.append(loop)
        return self.pass_of(loop)

    def number_of(self, loop: str) -> str:
        """What tells which pass a loop is in."""
        return f"self.{identifier(loop)}.number(job.slot)"

    def _action(self, action: Action) -> None:
        match action:
            case CallOp():
                results = ["_" if name is None else self.name(name) for name in action.results]
                head = f"self.{attribute(action.node)}.{identifier(action.op)}"
                if any(name is not None for name in action.results):
                    head = f"{', '.join(results)} = {head}"
                arguments = [self.exprs.render(argument) for argument in action.arguments]
                self.add(layout_call(head, arguments, INDENT))
            case Read(stream=stream, result=result):
                code = f"{self.name(result)} = self.{attribute(stream)}.chunk(job)"
                self.add(code, type_text(self.type_of(result)))
            case EmitValue(output=output, value=value):
                self.add(f"job.emit({pyrepr(output)}, {self.exprs.render(value)})")
            case Move(pairs=pairs):
                targets = ", ".join(self.name(name) for name, _ in pairs)
                values = ", ".join(self.exprs.render(value) for _, value in pairs)
                self.add(f"{targets} = {values}")
            case _:
                raise AssertionError(f"no host action: {action}")
