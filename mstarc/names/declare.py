"""Collect what a spec declares at its top, and refuse names that are taken."""

from collections.abc import Iterable

from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label
from mstarc.names.symbols import KIND_WORDS, NodeSymbols, Symbol, SymbolKind, Symbols
from mstarc.syntax import ast


def declare(spec: ast.Spec, sink: DiagnosticSink) -> Symbols:
    """The symbols of a spec. Of two with one name the first stays and the second is reported."""
    values: dict[str, Symbol] = {}
    outputs: dict[str, Symbol] = {}
    nodes: dict[str, Symbol] = {}
    members: dict[str, NodeSymbols] = {}
    streams: dict[str, Symbol] = {}
    marks: dict[str, dict[str, Symbol]] = {}
    walks: dict[str, Symbol] = {}
    machines: dict[str, Symbol] = {}
    states: dict[str, dict[str, Symbol]] = {}

    def add(table: dict[str, Symbol], kind: SymbolKind, name: ast.Name, node: ast.Node) -> bool:
        return _add(table, Symbol(kind=kind, declaration=name, node=node), sink)

    for declaration in spec.declarations:
        match declaration:
            case ast.ConfigDecl():
                for item in declaration.items:
                    add(values, "config", item.name, item)
            case ast.RequestDecl():
                for request_field in declaration.fields:
                    match request_field:
                        case ast.InField():
                            add(values, "input", request_field.name, request_field)
                        case ast.OptField():
                            add(values, "option", request_field.name, request_field)
                        case ast.OutField():
                            add(outputs, "output", request_field.name, request_field)
            case ast.Let():
                add(values, "let", declaration.name, declaration)
            case ast.TableDecl():
                add(values, "table", declaration.name, declaration)
            case ast.NodeDecl():
                if add(nodes, "node", declaration.name, declaration):
                    members[declaration.name.text] = _members(declaration, sink)
            case ast.StreamDecl():
                if add(streams, "stream", declaration.name, declaration):
                    table = marks[declaration.name.text] = {}
                    for mark in declaration.marks:
                        add(table, "mark", mark, mark)
            case ast.WalkDecl():
                add(walks, "walk", declaration.name, declaration)
            case ast.MachineDecl():
                if add(machines, "machine", declaration.name, declaration):
                    table = states[declaration.name.text] = {}
                    for state in declaration.states:
                        add(table, "state", state.name, state)
            case ast.VariantDecl() | ast.NeedDecl() | ast.FoldedDecl():
                pass
    _refuse_doubled_aliases(spec, sink)
    return Symbols(
        values=values,
        outputs=outputs,
        nodes=nodes,
        members=members,
        streams=streams,
        marks=marks,
        walks=walks,
        machines=machines,
        states=states,
    )


def refuse_doubles(names: Iterable[ast.Name], kind: SymbolKind, sink: DiagnosticSink) -> None:
    """Report every name that stands twice in one list, such as a parameter list."""
    seen: dict[str, Symbol] = {}
    for name in names:
        _add(seen, Symbol(kind=kind, declaration=name, node=name), sink)


def _refuse_doubled_aliases(spec: ast.Spec, sink: DiagnosticSink) -> None:
    """Refuse a public name that means two things; several nodes may be one thing of outside.

    So may several walks, also under the own name of one of them.
    """
    models: dict[str, ast.Node] = {spec.model.name.text: spec.model.name}
    values: dict[str, ast.Node] = {}
    nodes: dict[str, ast.Node] = {}
    shared: dict[str, ast.NodeDecl] = {}
    for declaration in spec.declarations:
        match declaration:
            case ast.VariantDecl():
                _add_alias(models, declaration.name.value, declaration.name, sink)
            case ast.ConfigDecl():
                for value in declaration.items:
                    _add_alias(values, value.name.text, value.name, sink)
                    for alias in value.aliases:
                        _add_alias(values, alias.value, alias, sink)
            case ast.NodeDecl():
                _add_alias(nodes, declaration.name.text, declaration.name, sink)
                for alias in declaration.aliases:
                    if shared.setdefault(alias.value, declaration) is declaration:
                        _add_alias(nodes, alias.value, alias, sink)
                for item in declaration.items:
                    contexts = item.contexts if isinstance(item, ast.ContextsItem) else ()
                    for alias in (alias for context in contexts for alias in context.aliases):
                        _add_alias(nodes, alias.value, alias, sink)
            case ast.WalkDecl():
                own: dict[str, ast.Node] = {}
                for alias in declaration.aliases:
                    _add_alias(own, alias.value, alias, sink)
            case ast.FoldedDecl():
                _add_alias(nodes, declaration.alias.value, declaration.alias, sink)
            case _:
                pass


def _add_alias(table: dict[str, ast.Node], text: str, node: ast.Node, sink: DiagnosticSink) -> None:
    first = table.setdefault(text, node)
    # Two names without `as` are reported as doubled declarations.
    if first is node or (isinstance(first, ast.Name) and isinstance(node, ast.Name)):
        return
    sink.report(
        Diagnostic(
            code="MS0201",
            message=f"the public name `{text}` is given twice",
            primary=Label(span=node.span, text="given again here"),
            helps=("a deployment file that says it would mean two things: rename one",),
        ).label(first.span, "given here first")
    )


def _members(node: ast.NodeDecl, sink: DiagnosticSink) -> NodeSymbols:
    ops: dict[str, Symbol] = {}
    contexts: dict[str, Symbol] = {}
    samplers: dict[str, Symbol] = {}
    for item in node.items:
        match item:
            case ast.OpDecl():
                _add(ops, Symbol(kind="op", declaration=item.name, node=item), sink)
            case ast.ContextsItem():
                for context in item.contexts:
                    symbol = Symbol(kind="context", declaration=context.name, node=context)
                    _add(contexts, symbol, sink)
            case ast.SampleItem() if item.name is not None:
                _add(samplers, Symbol(kind="sampler", declaration=item.name, node=item), sink)
            case _:
                pass
    return NodeSymbols(ops=ops, contexts=contexts, samplers=samplers)


def _add(table: dict[str, Symbol], symbol: Symbol, sink: DiagnosticSink) -> bool:
    """Whether the name was free."""
    first = table.setdefault(symbol.name, symbol)
    if first is symbol:
        return True
    known = KIND_WORDS[first.kind]
    sink.report(
        Diagnostic(
            code="MS0201",
            message=f"the name `{symbol.name}` is given twice",
            primary=Label(span=symbol.declaration.span, text="given again here"),
        )
        .label(first.declaration.span, f"already the name of {_article(known)} {known}")
        .help(f"give one of the two another name; every use means the {known} above")
    )
    return False


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"
