"""Expressions and types as text, with no more parentheses than needed.

The one exception: `(a // b) * c` keeps its parentheses, which people read by.
"""

from typing import assert_never

from mstarc.syntax import ast

_OR, _AND, _NOT, _COMPARE, _SUM, _TERM, _UNARY, _ATOM = range(1, 9)
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}


def expr_text(node: ast.Expr | ast.Slice, level: int = _OR) -> str:
    """The text of an expression that stands where only operators above `level` need no `( )`."""
    text, own = _text_and_level(node)
    return f"({text})" if own < level else text


def _text_and_level(node: ast.Expr | ast.Slice) -> tuple[str, int]:
    match node:
        case ast.Or():
            return f"{expr_text(node.left, _OR)} or {expr_text(node.right, _AND)}", _OR
        case ast.And():
            return f"{expr_text(node.left, _AND)} and {expr_text(node.right, _NOT)}", _AND
        case ast.Not():
            return f"not {expr_text(node.operand, _NOT)}", _NOT
        case ast.Compare():
            return f"{expr_text(node.left, _SUM)} {node.op} {expr_text(node.right, _SUM)}", _COMPARE
        case ast.Member():
            return f"{expr_text(node.item, _SUM)} in {expr_text(node.container, _SUM)}", _COMPARE
        case ast.Wants():
            return f"wants {node.output.text}", _COMPARE
        case ast.Has():
            return f"has {node.subject.text}", _COMPARE
        case ast.Binary():
            return _binary(node)
        case ast.Unary():
            return f"-{expr_text(node.operand, _UNARY)}", _UNARY
        case _:
            return _atom_text(node), _ATOM


def _binary(node: ast.Binary) -> tuple[str, int]:
    level = _SUM if node.op in "+-" else _TERM
    left = expr_text(node.left, level)
    if isinstance(node.left, ast.Binary) and _is_unclear(node.left.op, node.op):
        left = f"({expr_text(node.left)})"
    return f"{left} {node.op} {expr_text(node.right, level + 1)}", level


def _is_unclear(inner: str, outer: str) -> bool:
    """Whether people would stop at `a inner b outer c`."""
    return (
        inner != outer
        and outer not in "+-"
        and inner not in "+-"
        and not {inner, outer}
        <= {
            "*",
            "/",
        }
    )


def _atom_text(
    node: ast.Name
    | ast.Int
    | ast.Float
    | ast.Str
    | ast.Bool
    | ast.NoneLit
    | ast.List
    | ast.Tuple
    | ast.Attr
    | ast.Index
    | ast.Slice
    | ast.CallExpr
    | ast.OpCall,
) -> str:
    match node:
        case ast.Name():
            return node.text
        case ast.Int():
            return str(node.value)
        case ast.Float():
            return node.text
        case ast.Str():
            return str_text(node)
        case ast.Bool():
            return "true" if node.value else "false"
        case ast.NoneLit():
            return "none"
        case ast.List():
            return f"[{', '.join(map(expr_text, node.items))}]"
        case ast.Tuple():
            return f"({', '.join(map(expr_text, node.items))})"
        case ast.Attr():
            return f"{expr_text(node.base, _ATOM)}.{node.name.text}"
        case ast.Index():
            return f"{expr_text(node.base, _ATOM)}[{', '.join(map(expr_text, node.items))}]"
        case ast.Slice():
            lower = "" if node.lower is None else expr_text(node.lower)
            upper = "" if node.upper is None else expr_text(node.upper)
            return f"{lower}:{upper}"
        case ast.CallExpr():
            return f"{node.function.text}({args_text(node.args)})"
        case ast.OpCall():
            on = "" if node.context is None else f" on {context_text(node.context)}"
            return f"{op_text(node.target)}({args_text(node.args)}){on}"
        case _:
            assert_never(node)


def rhs_text(node: ast.Rhs) -> str:
    """The text of what stands right of `=` in a statement."""
    match node:
        case ast.RunCall():
            return run_text(node)
        case ast.Pull():
            return f"pull {node.stream.text}{' or none' if node.or_none else ''}"
        case _:
            return expr_text(node)


def run_text(node: ast.RunCall) -> str:
    """`run walk(args)`."""
    return f"run {node.walk.text}({args_text(node.args)})"


def args_text(args: tuple[ast.Arg, ...]) -> str:
    """Arguments without their parentheses."""
    return ", ".join(
        expr_text(arg.value) if arg.name is None else f"{arg.name.text} = {expr_text(arg.value)}"
        for arg in args
    )


def op_text(node: ast.OpRef) -> str:
    """`node.op`."""
    return f"{node.node.text}.{node.op.text}"


def context_text(node: ast.ContextRef) -> str:
    """`main`, `dream[2]`."""
    index = "" if node.index is None else f"[{expr_text(node.index)}]"
    return f"{node.name.text}{index}"


def path_text(node: ast.ContextPath) -> str:
    """`node.context`."""
    return f"{node.node.text}.{context_text(node.context)}"


def str_text(node: ast.Str) -> str:
    """A string in quotes."""
    return '"' + "".join(_ESCAPES.get(char, char) for char in node.value) + '"'


def names_text(names: tuple[ast.Name, ...]) -> str:
    """`a, b`."""
    return ", ".join(name.text for name in names)


def type_text(node: ast.Type) -> str:
    """The text of a type."""
    match node:
        case ast.ScalarType():
            return node.name.text
        case ast.TensorType():
            dims = (
                "?" if isinstance(dim, ast.UnknownDim) else expr_text(dim, _SUM)
                for dim in node.dims
            )
            return f"{node.dtype.text}[{', '.join(dims)}]"
        case ast.MediaType():
            return f"{node.name.text}({expr_text(node.argument)})"
        case ast.PartsType():
            return f"[{' | '.join(kind.text for kind in node.kinds)}]"
        case ast.ListType():
            return f"[{node.element.text}]"
        case ast.TupleType():
            fields = (f"{field.name.text}: {type_text(field.type)}" for field in node.fields)
            return f"({', '.join(fields)})"
        case ast.OptionalType():
            return f"{type_text(node.inner)} or none"
        case _:
            assert_never(node)


def params_text(params: tuple[ast.Param, ...]) -> str:
    """Parameters in their parentheses."""
    texts = (
        f"{param.name.text}: {type_text(param.type)}"
        + ("" if param.default is None else f" = {expr_text(param.default)}")
        for param in params
    )
    return f"({', '.join(texts)})"


def results_text(results: tuple[ast.Result, ...]) -> str:
    """Results with their arrow; empty without results."""
    texts = [
        f"{result.name.text}: {type_text(result.type)}"
        + ("" if result.condition is None else f" if {expr_text(result.condition)}")
        for result in results
    ]
    return f"-> ({', '.join(texts)})" if texts else ""
