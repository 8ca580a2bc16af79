"""A state that does nothing but go on to another."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, RuleContext, finding
from mstarc.syntax import ast


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for every state whose only statement is a `next` without a condition."""
    for machine in context.spec.all_of(ast.MachineDecl):
        for state in machine.states:
            match state.body.statements:
                case (ast.Next(target=target, condition=None),):
                    pass
                case _:
                    continue
            message = f"state `{state.name.text}` of `{machine.name.text}` only goes on"
            place = "ends the machine" if target.text == "done" else f"goes to `{target.text}`"
            yield (
                finding("MS1024", state.name.span, message, "does nothing")
                .label(target.span, place)
                .help(f"name `{target.text}` where `{state.name.text}` is named, and remove it")
            )


RULE = Rule(code="MS1024", group="style", check=check)
