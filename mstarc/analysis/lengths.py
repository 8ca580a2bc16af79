"""How long contexts are: at most, and in an expected request."""

from collections.abc import Iterator, Mapping
from math import ceil

from mstarc.analysis.op_costs import find_op, rows_of
from mstarc.analysis.rates import ALL, Taken, expected_bound, expected_runs
from mstarc.ir.exprs import Const
from mstarc.ir.graph import Call, Context, Loop, Node, Op, Program, Release, Run
from mstarc.ir.walking import Body, blocks_of, statements_of

# Rows of a size that each call binds anew, such as a prompt's.
DEFAULT_ROWS = 256


def full_rows(program: Program, node: Node, tokens: int) -> dict[str, int]:
    """Rows of each context of a node for one request at its longest, in the node's order.

    A context has at most `tokens` rows, or those of the node's `length`; one of a fixed length
    (`cross(n)`) has these. An array of contexts counts as its sum, with as many and as long ones as
    the defaults of options say: all of them at their highest are more than anybody asks for.
    """
    longest = _longest(node, tokens)
    contexts = node.contexts or (Context(name="main"),)
    arrays = any(context.count is not None for context in contexts)
    usual = _written(program, DEFAULT_ROWS, {}) if arrays else {}
    found: dict[str, int] = {}
    for context in contexts:
        rows = context.cross if context.cross is not None else longest
        if context.count is not None and context.cross is None:
            rows = min(rows, ceil(usual.get((node.name, context.name), longest)))
        found[context.name] = rows * count_of(program, context)
    return found


def _longest(node: Node, tokens: int) -> int:
    match dict(node.kv).get("length"):
        case Const(int(value)):
            return min(tokens, value)
        case _:
            return tokens


def expected_rows(
    program: Program,
    tokens: int,
    *,
    rows: int = DEFAULT_ROWS,
    options: Mapping[str, float] | None = None,
    taken: Taken = ALL,
) -> dict[tuple[str, str], float]:
    """Rows of each (node, context) of an expected request, never more than fit.

    Options count at their defaults, free sizes as `rows`, and both branches of a choice; a context
    that nothing but a fork fills is as long as the longest of its node.
    """
    found = _written(program, rows, options or {}, taken)
    result: dict[tuple[str, str], float] = {}
    for node in program.nodes:
        if node.engine != "kv_cache":
            continue
        longest = max((n for (name, _), n in found.items() if name == node.name), default=rows)
        counts = {context.name: count_of(program, context) for context in node.contexts}
        for context, most in full_rows(program, node, tokens).items():
            here = found.get((node.name, context), 0.0) or longest
            result[node.name, context] = min(here * counts.get(context, 1), most)
    return result


def _written(
    program: Program, rows: int, options: Mapping[str, float], taken: Taken = ALL
) -> dict[tuple[str, str], float]:
    """Rows of one context of each name that a request adds between releases, as expected."""
    runs = expected_runs(program, options, taken)
    nodes = {node.name: node for node in program.nodes}
    walks = {walk.name: walk for walk in program.walks}
    found: dict[tuple[str, str], dict[str, float]] = {}

    def add(body: Body, cleared: Mapping[tuple[str, str], float]) -> None:
        for statement in body:
            inner = cleared
            match statement:
                case Call():
                    node = nodes[statement.node]
                    op = find_op(node, statement.op)
                    for context in written_by(node, op, statement):
                        key = node.name, context
                        times = runs.get(statement.site, 0.0) / cleared.get(key, 1.0)
                        found.setdefault(key, {})[statement.site] = times * rows_of(op, rows)
                case Run(walk=walk):
                    add(walks[walk].body, cleared)
                case Loop():
                    # What each pass releases, only one pass adds to.
                    passes = max(expected_bound(program, statement.bound, options), 1.0)
                    inner = {**cleared}
                    for part in statements_of(statement.body):
                        if isinstance(part, Release):
                            key = part.node, part.context
                            inner[key] = cleared.get(key, 1.0) * passes
                case _:
                    pass
            for block in blocks_of(statement):
                add(block, inner)

    for machine in program.machines:
        for state in machine.states:
            add(state.body, {})
    return {key: sum(sites.values()) for key, sites in found.items()}


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
    """How many contexts an array has, by the defaults of options; 1 where it is none."""
    if context.count is None:
        return 1
    return max(1, int(expected_bound(program, context.count)))
