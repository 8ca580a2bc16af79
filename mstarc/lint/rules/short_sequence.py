"""A deployment whose contexts are shorter than what a request may ask for."""

from collections.abc import Iterator

from mstarc.diagnostics import Diagnostic
from mstarc.lint.base import Rule, RuleContext, finding
from mstarc.syntax import ast


def check(context: RuleContext) -> Iterator[Diagnostic]:
    """A finding for every `max_seq_len` below the domain of an option that bounds decoding.

    Only loops that write a row a pass count: those whose body calls an op that writes a context
    which is as long as the deployment says, and is not emptied by a `release`.
    """
    for loop in context.nodes.get(ast.Loop, ()):
        assert isinstance(loop, ast.Loop)
        bound = loop.bound.count
        if not isinstance(bound, ast.Name) or not _writes_a_row(loop, context):
            continue
        symbol = context.resolved.meaning(bound)
        option = context.typed.options.get(bound.text)
        if symbol is None or symbol.kind != "option" or option is None or option.domain is None:
            continue
        most = max(value for value in option.domain[1] if isinstance(value, int | float))
        for deployment in context.deployments:
            length = deployment.max_seq_len
            if length is None or length.value >= most:
                continue
            message = f"a request may ask for {most} tokens, and a context holds {length.value}"
            found = finding("MS1025", length.span, message, f"{length.value} rows")
            if option.decl.domain is not None:
                found = found.label(option.decl.domain.span, "what a request may ask for")
            yield found.note("such a request ends with an error when its context is full")


def _writes_a_row(loop: ast.Loop, context: RuleContext) -> bool:
    emptied = {
        release.target.node.text
        for release in context.nodes.get(ast.Release, ())
        if isinstance(release, ast.Release)
    }
    for call in ast.descendants(loop.body):
        if isinstance(call, ast.OpCall) and call.target.node.text not in emptied:
            node = context.typed.nodes[call.target.node.text]
            op = node.ops[call.target.op.text]
            own_length = any(setting.name.text == "length" for setting in node.kv)
            if op.writes and op.advance is None and not own_length:
                return True
    return False


RULE = Rule(code="MS1025", group="correctness", check=check)
