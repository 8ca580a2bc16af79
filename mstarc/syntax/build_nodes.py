"""Make nodes, their settings and their ops; a method a rule, as `build` says."""

from mstarc.diagnostics import DiagnosticSink
from mstarc.source import SourceFile
from mstarc.syntax import ast
from mstarc.syntax.build_exprs import ExprBuilder


class NodeBuilder(ExprBuilder):
    """Builds what stands in a node, and knows the `##` texts before declarations."""

    def __init__(self, source: SourceFile, docs: dict[int, str], sink: DiagnosticSink) -> None:
        super().__init__(source, sink)
        self.docs = docs

    def doc(self, start: int) -> str | None:
        """The `##` text before the declaration that begins at `start`."""
        return self.docs.get(start)

    def node(
        self,
        start: int,
        end: int,
        name: ast.Name,
        engine: ast.Name,
        aliases: tuple[ast.Str, ...] | None,
        *items: ast.NodeItem,
    ) -> ast.NodeDecl:
        return ast.NodeDecl(
            span=self.span(start, end),
            name=self.declared(name),
            engine=engine,
            aliases=aliases or (),
            items=items,
            doc=self.doc(start),
        )

    def aliases(self, start: int, end: int, *aliases: ast.Str) -> tuple[ast.Str, ...]:
        return aliases

    def impl_item(self, start: int, end: int, path: ast.Str) -> ast.ImplItem:
        return ast.ImplItem(span=self.span(start, end), path=path)

    def weights_item(
        self,
        start: int,
        end: int,
        source: ast.Str,
        under: ast.Str | None,
        size: ast.ByteSize | None,
    ) -> ast.WeightsItem:
        return ast.WeightsItem(span=self.span(start, end), source=source, under=under, size=size)

    def size(
        self, start: int, end: int, amount: ast.Int | ast.Float, unit: ast.Name
    ) -> ast.ByteSize:
        return ast.ByteSize(span=self.span(start, end), amount=amount, unit=unit)

    def shards_item(self, start: int, end: int, kinds: tuple[ast.Name, ...]) -> ast.ShardsItem:
        return ast.ShardsItem(span=self.span(start, end), kinds=kinds)

    def kv_item(self, start: int, end: int, settings: tuple[ast.Setting, ...]) -> ast.KvItem:
        return ast.KvItem(span=self.span(start, end), settings=settings)

    def sample_item(
        self, start: int, end: int, name: ast.Name | None, settings: tuple[ast.Setting, ...]
    ) -> ast.SampleItem:
        return ast.SampleItem(span=self.span(start, end), name=name, settings=settings)

    def contexts_item(self, start: int, end: int, *contexts: ast.ContextDecl) -> ast.ContextsItem:
        return ast.ContextsItem(span=self.span(start, end), contexts=contexts)

    def context(
        self,
        start: int,
        end: int,
        name: ast.Name,
        count: ast.Expr | None,
        cross: ast.Expr | None,
        aliases: tuple[ast.Str, ...] | None,
    ) -> ast.ContextDecl:
        return ast.ContextDecl(
            span=self.span(start, end), name=name, count=count, cross=cross, aliases=aliases or ()
        )

    def count(self, start: int, end: int, value: ast.Expr) -> ast.Expr:
        return value

    def cross(self, start: int, end: int, value: ast.Expr) -> ast.Expr:
        return value

    def settings(self, start: int, end: int, *settings: ast.Setting) -> tuple[ast.Setting, ...]:
        return settings

    def setting(
        self, start: int, end: int, name: ast.Name, value: ast.Expr, last: ast.Expr | None
    ) -> ast.Setting:
        return ast.Setting(span=self.span(start, end), name=name, value=value, last=last)

    def op(
        self,
        start: int,
        end: int,
        name: ast.Name,
        params: tuple[ast.Param, ...],
        results: tuple[ast.Result, ...] | None,
        *effects: ast.Effect,
    ) -> ast.OpDecl:
        return ast.OpDecl(
            span=self.span(start, end),
            name=name,
            params=params,
            results=results or (),
            effects=effects,
            doc=self.doc(start),
        )

    def attends(
        self, start: int, end: int, mask: ast.Name, argument: ast.Expr | None
    ) -> ast.Attends:
        return ast.Attends(span=self.span(start, end), mask=mask, argument=argument)

    def writes(self, start: int, end: int, contexts: tuple[ast.Name, ...] | None) -> ast.Writes:
        return ast.Writes(span=self.span(start, end), contexts=contexts or ())

    def reads(self, start: int, end: int, contexts: tuple[ast.Name, ...] | None) -> ast.Reads:
        return ast.Reads(span=self.span(start, end), contexts=contexts or ())

    def advance(self, start: int, end: int, amount: ast.Expr) -> ast.Advance:
        return ast.Advance(span=self.span(start, end), amount=amount)

    def receptive(self, start: int, end: int, items: ast.Int) -> ast.Receptive:
        return ast.Receptive(span=self.span(start, end), items=items)

    def use_sampler(self, start: int, end: int, name: ast.Name) -> ast.UseSampler:
        return ast.UseSampler(span=self.span(start, end), name=name)

    def stateful(self, start: int, end: int) -> ast.Stateful:
        return ast.Stateful(span=self.span(start, end))

    def cost(self, start: int, end: int, settings: tuple[ast.Setting, ...]) -> ast.Cost:
        return ast.Cost(span=self.span(start, end), settings=settings)

    def names(self, start: int, end: int, *names: ast.Name) -> tuple[ast.Name, ...]:
        return names
