"""Resolve every name of a spec."""

from mstarc.diagnostics import DiagnosticSink
from mstarc.names.bodies import resolve_machine, resolve_walk
from mstarc.names.declare import declare, refuse_doubles
from mstarc.names.expressions import resolve_expr, resolve_op, resolve_policy, resolve_type
from mstarc.names.scope import Scope, Uses
from mstarc.names.symbols import Resolved, Symbol
from mstarc.syntax import ast


def resolve(spec: ast.Spec, sink: DiagnosticSink) -> Resolved:
    """What the names of `spec` mean. What means nothing is reported and left out of `uses`."""
    symbols = declare(spec, sink)
    uses = Uses(symbols=symbols, sink=sink)
    top = Scope(symbols.values)
    for declaration in spec.declarations:
        _resolve_declaration(declaration, top, uses)
    return Resolved(spec=spec, symbols=symbols, uses=uses.found)


def _resolve_declaration(declaration: ast.Decl, top: Scope, uses: Uses) -> None:
    match declaration:
        case ast.ConfigDecl():
            for item in declaration.items:
                if item.default is not None:
                    resolve_expr(item.default, _config(top), uses)
        case ast.RequestDecl():
            for request_field in declaration.fields:
                _resolve_field(request_field, top, uses)
        case ast.VariantDecl():
            _resolve_variant(declaration, top, uses)
        case ast.NeedDecl():
            resolve_expr(declaration.condition, top, uses)
        case ast.Let():
            resolve_expr(declaration.value, top, uses)
        case ast.TableDecl():
            resolve_expr(declaration.length, top, uses)
            index = Symbol(kind="index", declaration=declaration.index, node=declaration)
            uses.found[declaration.index] = index
            resolve_expr(declaration.value, Scope({index.name: index}, top), uses)
        case ast.FoldedDecl():
            uses.use(declaration.node, uses.symbols.nodes, "MS0202", "node")
        case ast.NodeDecl():
            _resolve_node(declaration, top, uses)
        case ast.StreamDecl():
            resolve_type(declaration.item, _config(top), None, uses)
            stream = uses.symbols.streams.get(declaration.name.text)
            resolve_policy(declaration.policy, stream, top, uses)
            if declaration.tail is not None and declaration.tail.value is not None:
                resolve_expr(declaration.tail.value, top, uses)
        case ast.WalkDecl():
            resolve_walk(declaration, top, uses)
        case ast.MachineDecl():
            resolve_machine(declaration, top, uses)


def _resolve_variant(variant: ast.VariantDecl, top: Scope, uses: Uses) -> None:
    config = _config(top)
    for output in variant.without:
        uses.use(output, uses.symbols.outputs, "MS0208", "output")
    refuse_doubles(variant.without, "output", uses.sink)
    for setting in variant.settings:
        uses.use(setting.name, config.names, "MS0217", "config value")
        _resolve_setting(setting, config, uses)
    refuse_doubles((setting.name for setting in variant.settings), "value", uses.sink)


def _config(top: Scope) -> Scope:
    """What is seen where only config counts: numbers that are known before any request."""
    return Scope({name: symbol for name, symbol in top.names.items() if symbol.kind == "config"})


def _resolve_field(request_field: ast.RequestField, top: Scope, uses: Uses) -> None:
    resolve_type(request_field.type, top, None, uses)
    match request_field:
        case ast.OutField(via=via) if via is not None:
            resolve_op(via, uses)
        case ast.OptField():
            config = _config(top)
            bounds: tuple[ast.Expr, ...] = ()
            match request_field.domain:
                case ast.RangeDomain(low=low, high=high):
                    bounds = (low, high)
                case ast.ChoiceDomain(choices=choices):
                    bounds = choices
                case None:
                    pass
            for expr in (request_field.default, *bounds):
                if expr is not None:
                    resolve_expr(expr, config, uses)
        case _:
            pass


def _resolve_setting(setting: ast.Setting, scope: Scope, uses: Uses) -> None:
    """The names in a setting's value, or in both ends of its range."""
    resolve_expr(setting.value, scope, uses)
    if setting.last is not None:
        resolve_expr(setting.last, scope, uses)


def _resolve_node(node: ast.NodeDecl, top: Scope, uses: Uses) -> None:
    for item in node.items:
        match item:
            case ast.KvItem() | ast.SampleItem():
                for setting in item.settings:
                    _resolve_setting(setting, top, uses)
            case ast.ContextsItem():
                for context in item.contexts:
                    for expr in (context.count, context.cross):
                        if expr is not None:
                            resolve_expr(expr, top, uses)
            case ast.OpDecl():
                _resolve_op(item, node, top, uses)
            case ast.ImplItem() | ast.WeightsItem() | ast.ShardsItem():
                pass


def _resolve_op(op: ast.OpDecl, node: ast.NodeDecl, top: Scope, uses: Uses) -> None:
    refuse_doubles((param.name for param in op.params), "parameter", uses.sink)
    refuse_doubles((result.name for result in op.results), "value", uses.sink)
    names: dict[str, Symbol] = {}
    for param in op.params:
        symbol = Symbol(kind="parameter", declaration=param.name, node=param)
        uses.found[param.name] = names.setdefault(param.name.text, symbol)
    scope = Scope(names, top)
    dims: dict[str, Symbol] = {}
    for param in op.params:
        resolve_type(param.type, scope, dims, uses)
        if param.default is not None:
            resolve_expr(param.default, top, uses)
    for result in op.results:
        resolve_type(result.type, scope, dims, uses)
        if result.condition is not None:
            resolve_expr(result.condition, scope, uses)
    for effect in op.effects:
        _resolve_effect(effect, node, scope, uses)


def _resolve_effect(effect: ast.Effect, node: ast.NodeDecl, scope: Scope, uses: Uses) -> None:
    members = uses.symbols.members.get(node.name.text)
    match effect:
        case ast.Attends(argument=argument) if argument is not None:
            resolve_expr(argument, scope, uses)
        case ast.Writes() | ast.Reads() if members is not None:
            own = Symbol(kind="node", declaration=node.name, node=node)
            known = members.contexts or {"main": own}
            for context in effect.contexts:
                if members.contexts or context.text != "main":
                    what = f"context of `{node.name.text}` named"
                    uses.use(context, known, "MS0210", what)
        case ast.Advance():
            resolve_expr(effect.amount, scope, uses)
        case ast.UseSampler() if members is not None:
            what = f"sampler of `{node.name.text}` named"
            uses.use(effect.name, members.samplers, "MS0212", what)
        case ast.Cost():
            for setting in effect.settings:
                _resolve_setting(setting, scope, uses)
        case _:
            pass
