"""Parse calls of ops and runs of walks, and what they name: contexts, ranks, sites.

lm.step(%token) on main ranks[0, 1] #decode/0
"""

from mstarc.ir.exprs import Expr
from mstarc.ir.graph import Call, Run, Value
from mstarc.ir.text.lexer import Cursor
from mstarc.ir.text.parse_exprs import parse_expr, parse_exprs

# A call's results: None for one that nobody takes.
Results = tuple[Value | None, ...]


def parse_call(cursor: Cursor, start: int, results: Results) -> Call:
    """A call from its node on; `start` is where its results begin."""
    node, op = parse_dotted(cursor)
    cursor.expect("(")
    arguments = parse_exprs(cursor, ")")
    context = cursor.name("the name of a context") if cursor.accept("on") else None
    index = parse_index(cursor)
    over = _parse_over(cursor) if cursor.accept("each") else ()
    ranks = _parse_ranks(cursor) if cursor.accept("ranks") else ()
    site = cursor.kind("site", "a site such as `#walk/0`")
    return Call(
        node=node,
        op=op,
        arguments=arguments,
        results=results,
        context=context,
        index=index,
        over=over,
        site=site,
        ranks=ranks,
        span=cursor.span(start),
    )


def parse_run(cursor: Cursor, start: int, results: Results) -> Run:
    """A run from `run` on; `start` is where its results begin."""
    cursor.expect("run")
    walk = cursor.name("the name of a walk")
    cursor.expect("(")
    arguments = parse_exprs(cursor, ")")
    site = cursor.kind("site", "a site such as `#machine.state/0`")
    span = cursor.span(start)
    return Run(walk=walk, arguments=arguments, results=results, site=site, span=span)


def parse_dotted(cursor: Cursor) -> tuple[str, str]:
    """`node.op`, `node.context`, `stream.mark`."""
    first = cursor.name()
    cursor.expect(".")
    return first, cursor.name()


def parse_index(cursor: Cursor) -> Expr | None:
    """Which context of an array is meant; None where nothing says it."""
    if not cursor.accept("["):
        return None
    index = parse_expr(cursor)
    cursor.expect("]")
    return index


def _parse_ranks(cursor: Cursor) -> tuple[int, ...]:
    ranks: list[int] = []
    cursor.expect("[")
    while not cursor.accept("]"):
        ranks.append(cursor.integer())
        if not cursor.at("]"):
            cursor.expect(",")
    return tuple(ranks)


def _parse_over(cursor: Cursor) -> tuple[bool, ...]:
    over: list[bool] = []
    cursor.expect("(")
    while not cursor.accept(")"):
        over.append(cursor.accept("true"))
        if not over[-1]:
            cursor.expect("false")
        if not cursor.at(")"):
            cursor.expect(",")
    return tuple(over)
