"""Two arguments that have each other's names."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic, Edit, Fix
from mstarc.lint.base import Rule, RuleContext, finding
from mstarc.syntax import ast
from mstarc.typecheck.typed import OpInfo, WalkInfo


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for every call whose argument `b` stands for the parameter `a`, and `a` for `b`.

    Only arguments that are a plain name and given by place count.
    """
    for kind in (ast.OpCall, ast.RunCall):
        for call in context.nodes.get(kind, ()):
            assert isinstance(call, ast.OpCall | ast.RunCall)
            params = [param.name for param in _called(call, context).params]
            plain = {
                index: arg.value
                for index, arg in enumerate(call.args)
                if arg.name is None and isinstance(arg.value, ast.Name)
            }
            for index, first in plain.items():
                for other, second in plain.items():
                    is_crossed = (
                        index < other < len(params)
                        and params[index] != params[other]
                        and (first.text, second.text) == (params[other], params[index])
                    )
                    if is_crossed:
                        yield _finding(first, second)


def _called(call: ast.OpCall | ast.RunCall, context: RuleContext) -> OpInfo | WalkInfo:
    if isinstance(call, ast.OpCall):
        return context.typed.nodes[call.target.node.text].ops[call.target.op.text]
    return context.typed.walks[call.walk.text]


def _finding(first: ast.Name, second: ast.Name) -> Diagnostic:
    message = f"`{first.text}` and `{second.text}` stand in each other's places"
    fix = Fix(
        message="change their places",
        edits=(
            Edit(span=first.span, text=second.text),
            Edit(span=second.span, text=first.text),
        ),
        applicability="unsafe",
    )
    return (
        finding("MS1028", first.span, message, f"goes to the parameter `{second.text}`")
        .label(second.span, f"goes to the parameter `{first.text}`")
        .help("change their places, or give them by name")
        .with_fix(fix)
    )


RULE = Rule(code="MS1028", group="correctness", check=check)
