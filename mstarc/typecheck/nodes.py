"""Nodes: engines, weights, settings, contexts, and ops with their effects spelled out."""

import re
from dataclasses import replace
from typing import get_args

from mstarc.diagnostics import Diagnostic, Edit, Fix, Label
from mstarc.names.scope import report_unknown
from mstarc.syntax import ast
from mstarc.typecheck.arrays import check_count
from mstarc.typecheck.constants import evaluate
from mstarc.typecheck.environment import Env
from mstarc.typecheck.ops import check_op
from mstarc.typecheck.samplers import check_settings, refuse_range, samplers_of
from mstarc.typecheck.state import State
from mstarc.typecheck.typed import ContextInfo, Engine, NodeInfo, WeightsInfo
from mstarc.typecheck.values import Values

ENGINES: tuple[Engine, ...] = get_args(Engine)
KV_SETTINGS = ("layers", "heads", "head_dim", "rope_axes", "length")
KV_NEEDED = ("layers", "heads", "head_dim")
SHARD_KINDS = ("tensor", "expert", "sequence")
BYTES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
BYTES |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}

_IMPL = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", re.ASCII)


def check_nodes(state: State) -> None:
    """Check every node and note what it is."""
    for symbol in state.resolved.symbols.nodes.values():
        state.nodes[symbol.name] = _check_node(symbol.of(ast.NodeDecl), state)


def _check_node(node: ast.NodeDecl, state: State) -> NodeInfo:
    engine = _engine(node, state)
    _refuse_doubled_items(node, state)
    impl = next((item for item in node.items if isinstance(item, ast.ImplItem)), None)
    if impl is None:
        state.sink.report(
            Diagnostic(
                code="MS0326",
                message=f"node `{node.name.text}` does not say what computes it",
                primary=Label(span=node.name.span, text="no `impl`"),
                helps=('name a module and a class in it: `impl "orpheus:Decoder"`',),
            )
        )
    elif not _IMPL.fullmatch(impl.path.value):
        state.sink.report(
            _with_colon(
                impl.path,
                Diagnostic(
                    code="MS0326",
                    message=f'`"{impl.path.value}"` does not name a class',
                    primary=Label(
                        span=impl.path.span,
                        text='a module, a colon and a class: `"orpheus:Decoder"`',
                    ),
                ),
            )
        )
    kv = next((item.settings for item in node.items if isinstance(item, ast.KvItem)), ())
    contexts = _contexts(node, state)
    _check_kv(node, engine, kv, state)
    if kv:  # of another engine this is said: the node is taken for what it looks like
        engine = "kv_cache"
    samplers = samplers_of(node, engine, state)
    info = NodeInfo(
        name=node.name.text,
        engine=engine,
        impl=impl.path.value if impl is not None else "",
        weights=_weights(node, state),
        shards=_shards(node, state),
        kv=kv,
        contexts=contexts if engine == "kv_cache" else (),
        samplers=samplers,
        aliases=tuple(alias.value for alias in node.aliases),
        ops={},
        decl=node,
    )
    ops = {
        symbol.name: check_op(symbol.of(ast.OpDecl), info, state)
        for symbol in state.resolved.symbols.members[node.name.text].ops.values()
    }
    return replace(info, ops=ops)


def _engine(node: ast.NodeDecl, state: State) -> Engine:
    for engine in ENGINES:
        if engine == node.engine.text:
            return engine
    report_unknown(node.engine, ENGINES, "MS0218", "engine", state.sink)
    return "kv_cache"


def _refuse_doubled_items(node: ast.NodeDecl, state: State) -> None:
    names = {
        ast.ImplItem: "impl",
        ast.WeightsItem: "weights",
        ast.ShardsItem: "shards",
        ast.KvItem: "kv",
        ast.ContextsItem: "contexts",
    }
    first: dict[type, ast.Node] = {}
    for item in node.items:
        kind = type(item)
        if kind in names:
            word = names[kind]
        elif isinstance(item, ast.SampleItem) and item.name is None:
            word = "sample"
        else:
            continue
        earlier = first.setdefault(kind, item)
        if earlier is not item:
            state.sink.report(
                Diagnostic(
                    code="MS0201",
                    message=f"node `{node.name.text}` says `{word}` twice",
                    primary=Label(span=item.span, text="said again here"),
                ).label(earlier.span, "said first here")
            )


def _with_colon(path: ast.Str, found: Diagnostic) -> Diagnostic:
    """The finding, with the fix where Python's dot stands for the colon."""
    module, dot, name = path.value.rpartition(".")
    meant = f"{module}:{name}"
    if not dot or not _IMPL.fullmatch(meant):
        return found
    edit = Edit(span=path.span, text=f'"{meant}"')
    return found.with_fix(Fix(message=f'write `"{meant}"`', edits=(edit,), applicability="unsafe"))


def _weights(node: ast.NodeDecl, state: State) -> WeightsInfo | None:
    item = next((item for item in node.items if isinstance(item, ast.WeightsItem)), None)
    if item is None:
        return None
    source = item.source.value
    if not source or source != source.strip() or any(char.isspace() for char in source):
        state.error(
            "MS0326",
            item.source.span,
            f'`"{source}"` does not name weights',
            "a repository, a folder or a name of the weights table, without spaces",
        )
    size = None
    if item.size is not None:
        unit = item.size.unit
        if unit.text in BYTES:
            size = round(item.size.amount.value * BYTES[unit.text])
        else:
            report_unknown(unit, BYTES, "MS0218", "unit of size", state.sink)
    under = item.under.value if item.under is not None else ""
    return WeightsInfo(source=source, under=under, size_bytes=size)


def _shards(node: ast.NodeDecl, state: State) -> tuple[str, ...]:
    kinds = [kind for item in node.items if isinstance(item, ast.ShardsItem) for kind in item.kinds]
    for kind in kinds:
        if kind.text not in SHARD_KINDS:
            report_unknown(kind, SHARD_KINDS, "MS0218", "way to shard", state.sink)
    return tuple(kind.text for kind in kinds if kind.text in SHARD_KINDS)


def _check_kv(
    node: ast.NodeDecl, engine: Engine, settings: tuple[ast.Setting, ...], state: State
) -> None:
    item = next((item for item in node.items if isinstance(item, ast.KvItem)), None)
    contexts = next((item for item in node.items if isinstance(item, ast.ContextsItem)), None)
    if engine != "kv_cache":
        for wrong, what in ((item, "kv"), (contexts, "contexts")):
            if wrong is not None:
                state.sink.report(
                    Diagnostic(
                        code="MS0327",
                        message=f"node `{node.name.text}` keeps no cache, and has `{what}`",
                        primary=Label(span=wrong.span, text="only a kv_cache node has this"),
                        helps=(f"write `: kv_cache`, or take `{what}` away",),
                    ).label(node.engine.span, f"its engine is `{engine}`")
                )
                return
        return
    if node.engine.text != "kv_cache":
        return
    if item is None:
        state.sink.report(
            Diagnostic(
                code="MS0327",
                message=f"the cache of node `{node.name.text}` has no size",
                primary=Label(span=node.name.span, text="no `kv`"),
                helps=("say its size: `kv { layers = 28, heads = 8, head_dim = 128 }`",),
            )
        )
        return
    check_settings(settings, KV_SETTINGS, "kv", state)
    given = {setting.name.text for setting in settings}
    missing = [name for name in KV_NEEDED if name not in given]
    # An unknown setting is most likely the one that is missing, misspelt: that is said already.
    if missing and given <= set(KV_SETTINGS):
        names = " and ".join(f"`{name}`" for name in missing)
        state.error(
            "MS0327",
            item.span,
            f"the cache of node `{node.name.text}` has no size",
            f"{names} not given",
        )
    for setting in settings:
        if setting.name.text in KV_SETTINGS:
            refuse_range(setting, state)
            value = evaluate(setting.value, state.config, state.resolved, state.sink)
            if value is not None and (type(value) is not int or value < 1):
                diagnostic = Diagnostic(
                    code="MS0327",
                    message=f"`{setting.name.text}` is not a whole number of at least 1",
                    primary=Label(span=setting.value.span, text=f"it is {value}"),
                )
                if isinstance(setting.value, ast.Binary) and setting.value.op == "/":
                    diagnostic = diagnostic.help("`//` divides whole numbers")
                state.sink.report(diagnostic)


def _contexts(node: ast.NodeDecl, state: State) -> tuple[ContextInfo, ...]:
    declared = state.resolved.symbols.members[node.name.text].contexts
    values = Values(state)
    contexts = []
    for symbol in declared.values():
        decl = symbol.of(ast.ContextDecl)
        if decl.count is not None:
            if values.whole_number(decl.count, Env(), "how many contexts there are"):
                check_count(decl.count, state)
            if decl.cross is not None:
                state.error(
                    "MS0327",
                    decl.span,
                    "a cross-attention cache is one context",
                    f"`{symbol.name}` is an array",
                )
        cross = None
        if decl.cross is not None:
            value = evaluate(decl.cross, state.config, state.resolved, state.sink)
            if type(value) is int and value >= 1:
                cross = value
            elif value is not None:
                state.error("MS0327", decl.cross.span, "`cross` has a length", f"{value} is none")
        contexts.append(
            ContextInfo(
                name=symbol.name,
                count=decl.count,
                cross=cross,
                aliases=tuple(alias.value for alias in decl.aliases),
                decl=decl,
            )
        )
    if not contexts:
        contexts.append(ContextInfo(name="main", count=None, cross=None, aliases=(), decl=None))
    return tuple(contexts)
