"""Make the syntax tree: one method a rule or alias of the grammar, called when it is complete.

A method gets the range of the text and the rule's children: nodes, `None` for what is missing,
and several at the end where the grammar repeats. What the grammar is too wide to refuse is
refused here: a statement where it does not belong, a call of a value, an empty block.
"""

from collections.abc import Callable
from typing import Any

from mstarc.syntax import ast
from mstarc.syntax.build_nodes import NodeBuilder
from mstarc.syntax.build_stmts import StmtBuilder


class TreeBuilder(NodeBuilder, StmtBuilder):
    """Builds declarations; what they are made of comes from the two parents."""

    def callback(self, name: str) -> Callable[..., Any]:
        """The method for a rule or alias of the grammar."""
        method: Callable[..., Any] = getattr(self, name)
        return method

    def start(
        self,
        start: int,
        end: int,
        version: ast.Int | None,
        model: ast.ModelDecl | None,
        *decls: ast.Decl,
    ) -> ast.Spec:
        at = self.span(start, start)
        if model is None:
            name = ast.Name(span=at, text="unnamed")
            model = ast.ModelDecl(span=at, name=name, source=None, doc=None)
        number = 1 if version is None else version.value
        return ast.Spec(span=self.span(start, end), version=number, model=model, declarations=decls)

    def version(self, start: int, end: int, number: ast.Int) -> ast.Int:
        return number

    def model(self, start: int, end: int, name: ast.Name, source: ast.Str | None) -> ast.ModelDecl:
        return ast.ModelDecl(
            span=self.span(start, end), name=name, source=source, doc=self.doc(start)
        )

    def config(self, start: int, end: int, *items: ast.ConfigItem) -> ast.ConfigDecl:
        return ast.ConfigDecl(span=self.span(start, end), items=items, doc=self.doc(start))

    def config_item(
        self,
        start: int,
        end: int,
        name: ast.Name,
        type_: ast.Type,
        default: ast.Expr | None,
        source: ast.Str | None,
        aliases: tuple[ast.Str, ...] | None,
    ) -> ast.ConfigItem:
        return ast.ConfigItem(
            span=self.span(start, end),
            name=self.declared(name),
            type=type_,
            default=default,
            source=source,
            aliases=aliases or (),
            doc=self.doc(start),
        )

    def variant(
        self,
        start: int,
        end: int,
        name: ast.Str,
        source: ast.Str | None,
        without: tuple[ast.Name, ...] | None,
        settings: tuple[ast.Setting, ...] | None,
    ) -> ast.VariantDecl:
        return ast.VariantDecl(
            span=self.span(start, end),
            name=name,
            source=source,
            without=without or (),
            settings=settings or (),
            doc=self.doc(start),
        )

    def without(self, start: int, end: int, *outputs: ast.Name) -> tuple[ast.Name, ...]:
        return outputs

    def request(self, start: int, end: int, *fields: ast.RequestField) -> ast.RequestDecl:
        return ast.RequestDecl(span=self.span(start, end), fields=fields, doc=self.doc(start))

    def in_field(
        self,
        start: int,
        end: int,
        name: ast.Name,
        type_: ast.Type,
        quantity: ast.Quantity | None,
        optional: str | None,
    ) -> ast.InField:
        return ast.InField(
            span=self.span(start, end),
            name=self.declared(name),
            type=type_,
            quantity=quantity,
            optional=optional is not None,
            doc=self.doc(start),
        )

    def out_field(
        self,
        start: int,
        end: int,
        name: ast.Name,
        type_: ast.Type,
        optional: str | None,
        via: ast.OpRef | None,
    ) -> ast.OutField:
        return ast.OutField(
            span=self.span(start, end),
            name=self.declared(name),
            type=type_,
            optional=optional is not None,
            via=via,
            doc=self.doc(start),
        )

    def opt_field(
        self,
        start: int,
        end: int,
        name: ast.Name,
        type_: ast.Type,
        default: ast.Expr | None,
        domain: ast.RangeDomain | ast.ChoiceDomain | None,
    ) -> ast.OptField:
        return ast.OptField(
            span=self.span(start, end),
            name=self.declared(name),
            type=type_,
            default=default,
            domain=domain,
            doc=self.doc(start),
        )

    def at_least(self, start: int, end: int, least: ast.Int, turns: str | None) -> ast.Quantity:
        return ast.Quantity(span=self.span(start, end), at_least=least, turns=turns is not None)

    def only_turns(self, start: int, end: int, turns: str) -> ast.Quantity:
        return ast.Quantity(span=self.span(start, end), at_least=None, turns=True)

    def range_domain(self, start: int, end: int, low: ast.Expr, high: ast.Expr) -> ast.RangeDomain:
        return ast.RangeDomain(span=self.span(start, end), low=low, high=high)

    def choice_domain(self, start: int, end: int, *choices: ast.Expr) -> ast.ChoiceDomain:
        return ast.ChoiceDomain(span=self.span(start, end), choices=choices)

    def need(self, start: int, end: int, condition: ast.Expr) -> ast.NeedDecl:
        return ast.NeedDecl(span=self.span(start, end), condition=condition, doc=self.doc(start))

    def let(self, start: int, end: int, name: ast.Name, value: ast.Expr) -> ast.Let:
        return ast.Let(
            span=self.span(start, end), name=self.declared(name), value=value, doc=self.doc(start)
        )

    def table(
        self,
        start: int,
        end: int,
        name: ast.Name,
        index: ast.Name,
        length: ast.Expr,
        value: ast.Expr,
    ) -> ast.TableDecl:
        return ast.TableDecl(
            span=self.span(start, end),
            name=self.declared(name),
            index=self.declared(index),
            length=length,
            value=value,
            doc=self.doc(start),
        )

    def folded(self, start: int, end: int, alias: ast.Str, node: ast.Name) -> ast.FoldedDecl:
        return ast.FoldedDecl(
            span=self.span(start, end), alias=alias, node=node, doc=self.doc(start)
        )

    def stream(
        self,
        start: int,
        end: int,
        name: ast.Name,
        item: ast.Type,
        marks: tuple[ast.Name, ...] | None,
        policy: ast.Policy,
        tail: ast.Tail | None,
        empty: ast.Empty | None,
    ) -> ast.StreamDecl:
        return ast.StreamDecl(
            span=self.span(start, end),
            name=name,
            item=item,
            marks=marks or (),
            policy=policy,
            tail=tail,
            empty=empty,
            doc=self.doc(start),
        )

    def tail(self, start: int, end: int, kind: ast.Name, value: ast.Expr | None) -> ast.Tail:
        return ast.Tail(span=self.span(start, end), kind=kind, value=value)

    def empty(self, start: int, end: int, kind: ast.Name) -> ast.Empty:
        return ast.Empty(span=self.span(start, end), kind=kind)

    def walk(
        self,
        start: int,
        end: int,
        name: ast.Name,
        aliases: tuple[ast.Str, ...] | None,
        params: tuple[ast.Param, ...],
        results: tuple[ast.Result, ...] | None,
        body: ast.Block,
    ) -> ast.WalkDecl:
        for param in params:
            self.declared(param.name)
        self.check_place(body, in_walk=True)
        return ast.WalkDecl(
            span=self.span(start, end),
            name=name,
            aliases=aliases or (),
            params=params,
            results=results or (),
            body=body,
            doc=self.doc(start),
        )

    def machine(
        self,
        start: int,
        end: int,
        name: ast.Name,
        condition: ast.Expr | None,
        *states: ast.StateDecl,
    ) -> ast.MachineDecl:
        if not states and not self.has_findings(start, end):
            self.report(
                "MS0115", name.span, f"machine `{name.text}` has no state", "it could do nothing"
            )
        return ast.MachineDecl(
            span=self.span(start, end),
            name=name,
            condition=condition,
            states=states,
            doc=self.doc(start),
        )

    def state(self, start: int, end: int, name: ast.Name, body: ast.Block) -> ast.StateDecl:
        self.check_place(body, in_walk=False)
        return ast.StateDecl(span=self.span(start, end), name=name, body=body, doc=self.doc(start))
