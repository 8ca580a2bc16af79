"""Parse chunk policies and tails: the inverse of `format_policy` and `format_tail`."""

from mstarc.ir.exprs import Expr
from mstarc.ir.graph import Policy, Tail
from mstarc.ir.text.lexer import Cursor
from mstarc.ir.text.parse_exprs import parse_constant, parse_expr


def parse_policy(cursor: Cursor) -> Policy:
    """A chunk policy."""
    kind = cursor.name("a chunk policy")
    if kind not in ("fixed", "sliding", "left_context", "until"):
        raise cursor.fail("a chunk policy")
    cursor.expect("(")
    policy: Policy
    match kind:
        case "fixed":
            policy = Policy(kind="fixed", size=cursor.integer())
        case "sliding":
            size = _setting(cursor, "window")
            cursor.expect(",")
            policy = Policy(kind="sliding", size=size, stride=_setting(cursor, "stride"))
        case "left_context":
            size = _setting(cursor, "chunk")
            cursor.expect(",")
            context = _setting(cursor, "context")
            ramp = _parse_ramp(cursor)
            policy = Policy(kind="left_context", size=size, context=context, ramp=ramp)
        case _:
            policy = _parse_until(cursor)
    cursor.expect(")")
    return policy


def _parse_ramp(cursor: Cursor) -> tuple[int, ...]:
    ramp: list[int] = []
    if cursor.accept(","):
        cursor.expect("ramp")
        cursor.expect("=")
        cursor.expect("(")
        while not cursor.accept(")"):
            ramp.append(cursor.integer())
            if not cursor.at(")"):
                cursor.expect(",")
    return tuple(ramp)


def _parse_until(cursor: Cursor) -> Policy:
    stop: Expr | None = None
    mark: str | None = None
    while not (cursor.at("max") and cursor.ahead().text == "="):
        if cursor.accept("mark"):
            mark = cursor.name("the name of a mark")
        else:
            stop = parse_expr(cursor)
        cursor.expect(",")
    return Policy(kind="until", size=_setting(cursor, "max"), stop=stop, mark=mark)


def _setting(cursor: Cursor, word: str) -> int:
    cursor.expect(word)
    cursor.expect("=")
    return cursor.integer()


def parse_tail(cursor: Cursor) -> Tail:
    """What becomes of the items left."""
    kind = cursor.name("`drop`, `short` or `pad`")
    if kind == "pad":
        cursor.expect("(")
        value = parse_constant(cursor)
        if isinstance(value, tuple):
            raise cursor.fail("one value to pad with")
        cursor.expect(")")
        return Tail(kind="pad", value=value)
    if kind == "drop":
        return Tail(kind="drop")
    if kind == "short":
        return Tail(kind="short")
    raise cursor.fail("`drop`, `short` or `pad`")
