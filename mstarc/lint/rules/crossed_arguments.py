"""Two arguments, or two names for results, that have each other's names."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic, Edit, Fix
from mstarc.lint.base import Rule, RuleContext, finding
from mstarc.syntax import ast
from mstarc.typecheck.typed import OpInfo, WalkInfo


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for every call whose argument `b` stands for the parameter `a`, and `a` for `b`.

    Only arguments given by place count, and their names: `opens` is that of `part.opens` too.
    """
    for kind in (ast.OpCall, ast.RunCall):
        for call in context.nodes.get(kind, ()):
            assert isinstance(call, ast.OpCall | ast.RunCall)
            params = [param.name for param in _called(call, context).params]
            plain = {
                index: (arg.value, _name_of(arg.value))
                for index, arg in enumerate(call.args)
                if arg.name is None
            }
            for index, (first, first_name) in plain.items():
                for other, (second, second_name) in plain.items():
                    if not index < other < len(params) or first_name == second_name:
                        continue
                    if (first_name, second_name) == (params[other], params[index]):
                        yield _finding(first, second, params[index], params[other], context)
    for assign in context.nodes.get(ast.Assign, ()):
        assert isinstance(assign, ast.Assign)
        if isinstance(assign.value, ast.OpCall | ast.RunCall):
            yield from _crossed_results(assign, assign.value, context)


def _crossed_results(
    assign: ast.Assign, call: ast.OpCall | ast.RunCall, context: RuleContext
) -> Iterator[Diagnostic]:
    """`b, a = node.op()` of an op that gives `a` and `b`."""
    names = [result.name for result in _called(call, context).results]
    targets = [target if isinstance(target, ast.Name) else None for target in assign.targets]
    for index, first in enumerate(targets):
        for other, second in enumerate(targets):
            if index >= other or first is None or second is None or first.text == second.text:
                continue
            if other < len(names) and (first.text, second.text) == (names[other], names[index]):
                yield _finding(
                    first, second, names[index], names[other], context, what="gets the result"
                )


def _name_of(value: ast.Expr) -> str | None:
    match value:
        case ast.Name():
            return value.text
        case ast.Attr():
            return value.name.text
        case _:
            return None


def _called(call: ast.OpCall | ast.RunCall, context: RuleContext) -> OpInfo | WalkInfo:
    if isinstance(call, ast.OpCall):
        return context.typed.nodes[call.target.node.text].ops[call.target.op.text]
    return context.typed.walks[call.walk.text]


def _finding(
    first: ast.Expr,
    second: ast.Expr,
    takes: str,
    other_takes: str,
    context: RuleContext,
    what: str = "goes to the parameter",
) -> Diagnostic:
    texts = [context.source.slice(value.span) for value in (first, second)]
    message = f"`{texts[0]}` and `{texts[1]}` stand in each other's places"
    fix = Fix(
        message="change their places",
        edits=(
            Edit(span=first.span, text=texts[1]),
            Edit(span=second.span, text=texts[0]),
        ),
        applicability="unsafe",
    )
    return (
        finding("MS1028", first.span, message, f"{what} `{takes}`")
        .label(second.span, f"{what} `{other_takes}`")
        .help(
            "change their places, or give them by name"
            if what.startswith("goes")
            else "change their places"
        )
        .with_fix(fix)
    )


RULE = Rule(code="MS1028", group="correctness", check=check)
