"""A loop whose calls could all be in a CUDA graph but for one."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, RuleContext, finding
from mstarc.source import Span
from mstarc.syntax import ast
from mstarc.typecheck.types import OptionalType, ScalarType, TensorType, Type, dims_of


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for every innermost loop of which one call is left out of the graph."""
    if not any(_may_break(loop, context) for loop in context.nodes.get(ast.Loop, ())):
        return
    # Loaded here: most specs have no such loop, and the IR takes longer to load than to check.
    from mstarc.analysis.capture import why_not_captured
    from mstarc.analysis.types import types_in
    from mstarc.ir.graph import Call, Loop
    from mstarc.ir.walking import statements_of
    from mstarc.lowering import lower

    program = lower(context.typed)
    nodes = {node.name: node for node in program.nodes}
    for _, types, body in types_in(program):
        for loop in statements_of(body):
            if not isinstance(loop, Loop):
                continue
            inside = list(statements_of(loop.body))
            if any(isinstance(statement, Loop) for statement in inside):
                continue
            left_out: list[tuple[Call, str]] = []
            captured: list[Call] = []
            for call in inside:
                if not isinstance(call, Call):
                    continue
                node = nodes[call.node]
                op = next(op for op in node.ops if op.name == call.op)
                reason = why_not_captured(node, op, call, types)
                if reason is None:
                    captured.append(call)
                else:
                    left_out.append((call, reason))
            if len(left_out) == 1 and captured:
                call, reason = left_out[0]
                yield _finding(call.node, call.op, reason, call.span, loop.span, len(captured))


def _finding(node: str, op: str, reason: str, call: Span, loop: Span, others: int) -> Diagnostic:
    calls = "the other call" if others == 1 else f"the other {others} calls"
    return (
        finding("MS1014", call, f"only `{node}.{op}` keeps a loop out of a CUDA graph", reason)
        .label(loop, f"{calls} of this loop could be captured")
        .note("each pass launches the kernels before and after it one by one")
        .help("give it dims that the plan knows, or move it before or behind the loop")
    )


def _may_break(node: ast.Node, context: RuleContext) -> bool:
    """Whether just one of a loop's calls may have to stay out of a graph, by the types."""
    assert isinstance(node, ast.Loop)
    inside = list(ast.descendants(node.body))
    calls = [entry for entry in inside if isinstance(entry, ast.OpCall)]
    if len(calls) < 2 or any(isinstance(entry, ast.Loop) for entry in inside):
        return False
    return sum(_may_stay_out(call, context) for call in calls) == 1


def _may_stay_out(call: ast.OpCall, context: RuleContext) -> bool:
    """Whether a call runs on the host, or takes or gives something of a size that is not known.

    A result whose dims are those of the parameters is as open as the arguments.
    """
    node = context.typed.nodes[call.target.node.text]
    op = node.ops[call.target.op.text]
    arguments = context.typed.arguments.get(call, call.args)
    given = [context.typed.types.get(argument) for argument in arguments]
    if node.engine == "host" or any(type_ is None or _is_open(type_) for type_ in given):
        return True
    bound = {var for param in op.params for dim in dims_of(param.type) for var in dim.variables()}
    return any(
        var not in bound
        for result in op.results
        for dim in dims_of(result.type)
        for var in dim.variables()
    )


def _is_open(type_: Type) -> bool:
    match type_:
        case OptionalType(item):
            return _is_open(item)
        case TensorType(_, dims):
            return any(dim.value is None for dim in dims)
        case ScalarType(kind):
            return kind == "str"
        case _:
            return False


RULE = Rule(code="MS1014", group="latency", check=check)
