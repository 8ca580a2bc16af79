"""Make expressions, types and parameters; a method a rule, as `build` says."""

from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label
from mstarc.source import SourceFile, Span
from mstarc.syntax import ast
from mstarc.syntax.words import RESERVED

DEEPEST_EXPRESSION = 100
"""Expressions in expressions: every reader of the tree may recurse."""

LIST_ELEMENTS = frozenset(("int", "float", "str", "bool"))


class ExprBuilder:
    """Builds what has a value, and what stands after a colon."""

    def __init__(self, source: SourceFile, sink: DiagnosticSink) -> None:
        self.path = source.path
        self.sink = sink
        self._depths: dict[ast.Node, int] = {}
        self._too_deep = False

    # The places of nodes, and what is refused.

    def span(self, start: int, end: int) -> Span:
        """The range as a span of this file."""
        return Span(path=self.path, start=start, end=end)

    def report(
        self, code: str, span: Span, message: str, label: str, helps: tuple[str, ...] = ()
    ) -> None:
        """Report a finding about the text under `span`."""
        primary = Label(span=span, text=label)
        self.sink.report(Diagnostic(code=code, message=message, primary=primary, helps=helps))

    def has_findings(self, start: int, end: int) -> bool:
        """Whether something in the range has been reported."""
        return any(start <= found.primary.span.start <= end for found in self.sink.diagnostics)

    def declared(self, name: ast.Name) -> ast.Name:
        """`name`, which values are later read by: refused if the language has it (MS0106)."""
        if name.text in RESERVED:
            self.report(
                "MS0106",
                name.span,
                f"`{name.text}` is a word of the language",
                "cannot be the name of a value",
                (f"write another name, such as `{name.text}_`",),
            )
        return name

    def is_shallow(self, node: ast.Node, *children: ast.Node | None) -> bool:
        """Notes how deep `node` is; false where that is too deep (MS0121, once a file)."""
        present = [child for child in children if child is not None]
        depth = 1 + max((self._depths.get(child, 0) for child in present), default=0)
        if depth <= DEEPEST_EXPRESSION:
            self._depths[node] = depth
            return True
        if not self._too_deep:
            self._too_deep = True
            self.report(
                "MS0121",
                node.span,
                "this is nested too deeply",
                f"deeper than {DEEPEST_EXPRESSION} levels",
                ("give parts of it names with `let`",),
            )
        return False

    # Expressions.

    def binary(
        self, op: ast.BinaryOp, start: int, end: int, left: ast.Expr, right: ast.Expr
    ) -> ast.Expr:
        node = ast.Binary(span=self.span(start, end), op=op, left=left, right=right)
        return node if self.is_shallow(node, left, right) else left

    def add(self, start: int, end: int, left: ast.Expr, right: ast.Expr) -> ast.Expr:
        return self.binary("+", start, end, left, right)

    def sub(self, start: int, end: int, left: ast.Expr, right: ast.Expr) -> ast.Expr:
        return self.binary("-", start, end, left, right)

    def mul(self, start: int, end: int, left: ast.Expr, right: ast.Expr) -> ast.Expr:
        return self.binary("*", start, end, left, right)

    def div(self, start: int, end: int, left: ast.Expr, right: ast.Expr) -> ast.Expr:
        return self.binary("/", start, end, left, right)

    def mod(self, start: int, end: int, left: ast.Expr, right: ast.Expr) -> ast.Expr:
        return self.binary("%", start, end, left, right)

    def floordiv(self, start: int, end: int, left: ast.Expr, right: ast.Expr) -> ast.Expr:
        return self.binary("//", start, end, left, right)

    def minus(self, start: int, end: int, operand: ast.Expr) -> ast.Expr:
        node = ast.Unary(span=self.span(start, end), op="-", operand=operand)
        return node if self.is_shallow(node, operand) else operand

    def not_(self, start: int, end: int, operand: ast.Expr) -> ast.Expr:
        node = ast.Not(span=self.span(start, end), operand=operand)
        return node if self.is_shallow(node, operand) else operand

    def and_(self, start: int, end: int, left: ast.Expr, right: ast.Expr) -> ast.Expr:
        node = ast.And(span=self.span(start, end), left=left, right=right)
        return node if self.is_shallow(node, left, right) else left

    def or_(self, start: int, end: int, left: ast.Expr, right: ast.Expr) -> ast.Expr:
        node = ast.Or(span=self.span(start, end), left=left, right=right)
        return node if self.is_shallow(node, left, right) else left

    def compare(
        self, start: int, end: int, left: ast.Expr, op: ast.CompareOp, right: ast.Expr
    ) -> ast.Expr:
        node = ast.Compare(span=self.span(start, end), op=op, left=left, right=right)
        return node if self.is_shallow(node, left, right) else left

    def member(self, start: int, end: int, item: ast.Expr, container: ast.Expr) -> ast.Expr:
        node = ast.Member(span=self.span(start, end), item=item, container=container)
        return node if self.is_shallow(node, item, container) else item

    def wants(self, start: int, end: int, output: ast.Name) -> ast.Wants:
        return ast.Wants(span=self.span(start, end), output=output)

    def has(self, start: int, end: int, subject: ast.Name) -> ast.Has:
        return ast.Has(span=self.span(start, end), subject=subject)

    def bool_lit(self, start: int, end: int, word: str) -> ast.Bool:
        return ast.Bool(span=self.span(start, end), value=word == "true")

    def none_lit(self, start: int, end: int, word: str) -> ast.NoneLit:
        return ast.NoneLit(span=self.span(start, end))

    def list_lit(self, start: int, end: int, *items: ast.Expr | None) -> ast.Expr:
        present = tuple(item for item in items if item is not None)
        node = ast.List(span=self.span(start, end), items=present)
        self.is_shallow(node, *present)
        return node

    def tuple_lit(self, start: int, end: int, *items: ast.Expr) -> ast.Expr:
        node = ast.Tuple(span=self.span(start, end), items=items)
        self.is_shallow(node, *items)
        return node

    def group(self, start: int, end: int, inner: ast.Expr) -> ast.Expr:
        return inner

    def attr(self, start: int, end: int, base: ast.Expr, name: ast.Name) -> ast.Expr:
        node = ast.Attr(span=self.span(start, end), base=base, name=name)
        return node if self.is_shallow(node, base) else base

    def index(self, start: int, end: int, base: ast.Expr, *items: ast.Expr | ast.Slice) -> ast.Expr:
        node = ast.Index(span=self.span(start, end), base=base, items=items)
        return node if self.is_shallow(node, base, *items) else base

    def slice(
        self, start: int, end: int, lower: ast.Expr | None, upper: ast.Expr | None
    ) -> ast.Slice:
        node = ast.Slice(span=self.span(start, end), lower=lower, upper=upper)
        self.is_shallow(node, lower, upper)
        return node

    def call(self, start: int, end: int, base: ast.Expr, args: tuple[ast.Arg, ...]) -> ast.Expr:
        span = self.span(start, end)
        node: ast.CallExpr | ast.OpCall
        match base:
            case ast.Name():
                node = ast.CallExpr(span=span, function=base, args=args)
            case ast.Attr(base=ast.Name() as owner, name=name):
                target = ast.OpRef(span=base.span, node=owner, op=name)
                node = ast.OpCall(span=span, target=target, args=args, context=None)
            case _:
                self.report(
                    "MS0123",
                    base.span,
                    "this cannot be called",
                    "neither `node.op` nor the name of a function",
                    ("call an op by its node and its name: `node.op(…)`",),
                )
                return base
        values = [arg.value for arg in args]
        return node if self.is_shallow(node, *values) else base

    def args(self, start: int, end: int, *args: ast.Arg) -> tuple[ast.Arg, ...]:
        return args

    def positional_arg(self, start: int, end: int, value: ast.Expr) -> ast.Arg:
        return ast.Arg(span=self.span(start, end), name=None, value=value)

    def named_arg(self, start: int, end: int, name: ast.Name, value: ast.Expr) -> ast.Arg:
        return ast.Arg(span=self.span(start, end), name=name, value=value)

    def opref(self, start: int, end: int, node: ast.Name, op: ast.Name) -> ast.OpRef:
        return ast.OpRef(span=self.span(start, end), node=node, op=op)

    def contextref(
        self, start: int, end: int, name: ast.Name, index: ast.Expr | None
    ) -> ast.ContextRef:
        return ast.ContextRef(span=self.span(start, end), name=name, index=index)

    def contextpath(
        self, start: int, end: int, node: ast.Name, context: ast.ContextRef
    ) -> ast.ContextPath:
        return ast.ContextPath(span=self.span(start, end), node=node, context=context)

    # Types.

    def type_(self, start: int, end: int, base: ast.Type, none: str | None) -> ast.Type:
        if none is None:
            return base
        return ast.OptionalType(span=self.span(start, end), inner=base)

    def scalar_type(self, start: int, end: int, name: ast.Name) -> ast.ScalarType:
        return ast.ScalarType(span=self.span(start, end), name=name)

    def tensor_type(self, start: int, end: int, dtype: ast.Name, *dims: ast.Dim) -> ast.TensorType:
        return ast.TensorType(span=self.span(start, end), dtype=dtype, dims=dims)

    def unknown_dim(self, start: int, end: int) -> ast.UnknownDim:
        return ast.UnknownDim(span=self.span(start, end))

    def media_type(self, start: int, end: int, name: ast.Name, argument: ast.Expr) -> ast.MediaType:
        return ast.MediaType(span=self.span(start, end), name=name, argument=argument)

    def bracket_type(self, start: int, end: int, *kinds: ast.Name) -> ast.PartsType | ast.ListType:
        span = self.span(start, end)
        if len(kinds) == 1 and kinds[0].text in LIST_ELEMENTS:
            return ast.ListType(span=span, element=kinds[0])
        return ast.PartsType(span=span, kinds=kinds)

    def tuple_type(self, start: int, end: int, *fields: ast.TypeField) -> ast.TupleType:
        return ast.TupleType(span=self.span(start, end), fields=fields)

    def type_field(self, start: int, end: int, name: ast.Name, type_: ast.Type) -> ast.TypeField:
        return ast.TypeField(span=self.span(start, end), name=name, type=type_)

    def params(self, start: int, end: int, *params: ast.Param) -> tuple[ast.Param, ...]:
        return params

    def param(
        self, start: int, end: int, name: ast.Name, type_: ast.Type, default: ast.Expr | None
    ) -> ast.Param:
        return ast.Param(span=self.span(start, end), name=name, type=type_, default=default)

    def results(self, start: int, end: int, *results: ast.Result) -> tuple[ast.Result, ...]:
        return results

    def result(
        self, start: int, end: int, name: ast.Name, type_: ast.Type, condition: ast.Expr | None
    ) -> ast.Result:
        return ast.Result(span=self.span(start, end), name=name, type=type_, condition=condition)
