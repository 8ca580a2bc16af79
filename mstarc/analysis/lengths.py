"""How long contexts are: at most, and in an expected request."""

from collections.abc import Iterator, Mapping

from mstarc.analysis.op_costs import find_op, rows_of
from mstarc.analysis.rates import expected_runs
from mstarc.ir.exprs import Const, Option
from mstarc.ir.graph import Call, Context, Node, Op, Program
from mstarc.ir.walking import all_statements

# Rows of a size that each call binds anew, such as a prompt's.
DEFAULT_ROWS = 256


def full_rows(program: Program, node: Node, tokens: int) -> dict[str, int]:
    """Rows of each context of a node for one request at its longest, in the node's order.

    A context has at most `tokens` rows, or those of the node's `length`; an array counts as
    its sum. Contexts of a fixed length (`cross(n)`) have that one.
    """
    length = dict(node.kv).get("length")
    longest = tokens
    if isinstance(length, Const) and isinstance(length.value, int):
        longest = min(longest, length.value)
    contexts = node.contexts or (Context(name="main"),)
    return {
        context.name: (context.cross if context.cross is not None else longest)
        * count_of(program, context)
        for context in contexts
    }


def expected_rows(
    program: Program,
    tokens: int,
    *,
    rows: int = DEFAULT_ROWS,
    options: Mapping[str, float] | None = None,
) -> dict[tuple[str, str], float]:
    """Rows of each (node, context) at the end of an expected request, never more than fit.

    Options count at their defaults, free sizes as `rows`, and both branches of a choice; a context
    that nothing but a fork fills is as long as the longest of its node.
    """
    runs = expected_runs(program, options)
    nodes = {node.name: node for node in program.nodes}
    found: dict[tuple[str, str], float] = {}
    for call in all_statements(program):
        if isinstance(call, Call):
            node = nodes[call.node]
            op = find_op(node, call.op)
            for context in written_by(node, op, call):
                more = runs.get(call.site, 0.0) * rows_of(op, rows)
                found[node.name, context] = found.get((node.name, context), 0.0) + more
    result: dict[tuple[str, str], float] = {}
    for node in program.nodes:
        if node.engine != "kv_cache":
            continue
        longest = max((n for (name, _), n in found.items() if name == node.name), default=rows)
        for context, most in full_rows(program, node, tokens).items():
            here = found.get((node.name, context), 0.0) or longest
            result[node.name, context] = min(here, most)
    return result


def written_by(node: Node, op: Op, call: Call) -> Iterator[str]:
    """The contexts that a call adds rows to: an op's first one is the call's own."""
    first = node.contexts[0].name if node.contexts else "main"
    for name in op.writes:
        yield call.context if call.context and name == first else name


def used_by(node: Node, op: Op, call: Call) -> tuple[str, ...]:
    """The contexts that a call reads or writes."""
    first = node.contexts[0].name if node.contexts else "main"
    names = (*op.writes, *op.reads) or (first,)
    return tuple(dict.fromkeys(call.context if call.context and n == first else n for n in names))


def count_of(program: Program, context: Context) -> int:
    """How many contexts an array has, at most; 1 where it is none."""
    match context.count:
        case Const(int(value)):
            return value
        case Option(name):
            option = next(option for option in program.options if option.name == name)
            if option.domain is not None and option.domain[0] == "range":
                return int(option.domain[1][1])
            return int(option.default or 1)
        case _:
            return 1
