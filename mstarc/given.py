"""What stands above the values of a spec: a variant, deployments, a file of sizes.

Of one config value the variant's stands above the spec's default, a checkpoint's config.json above
the variant's, then `model_kwargs` of the deployment file, the file of sizes, the environment and
the command line. A plan has one program: the deployments that are compiled together agree.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label, did_you_mean
from mstarc.names import Resolved
from mstarc.source import Span
from mstarc.syntax import ast
from mstarc.typecheck import Sizes
from mstarc.typecheck.constants import ConfigValue

if TYPE_CHECKING:
    from mstarc.deployment import Deployment, Kwarg
    from mstarc.deployment.sizes import SizesFile


def front_sizes(
    sizes: "SizesFile | None",
    deployments: "Sequence[Deployment]",
    resolved: Resolved,
    sink: DiagnosticSink,
) -> Sizes:
    """What the checker is given; what the spec does not know in it is reported.

    A node without weights of its own uses the model's checkpoint: what the file of sizes gives for
    such a node are entries of that checkpoint's config.
    """
    given = _of_deployments(deployments, resolved, sink)
    if sizes is None:
        return given
    from mstarc.deployment.sizes import refuse_unknown_nodes

    nodes = resolved.symbols.nodes
    refuse_unknown_nodes(sizes, nodes, sink)
    checkpoint = dict(sizes.checkpoint)
    for entry in sizes.weights:
        symbol = nodes.get(entry.node)
        if symbol is not None and not _has_weights(symbol.of(ast.NodeDecl)):
            checkpoint |= entry.config
    files = {deployment.path for deployment in deployments}
    below = {name for name, span in given.spans.items() if span.path in files}
    config = {name: given.config[name] for name in below}
    config |= sizes.config
    config |= {name: value for name, value in given.config.items() if name not in below}
    return Sizes(
        variant=given.variant,
        checkpoint=checkpoint,
        config=config,
        spans={**{n: given.spans[n] for n in below}, **sizes.spans, **_without(given.spans, below)},
    )


def with_variant(
    values: Sizes, name: str | None, resolved: Resolved, sink: DiagnosticSink
) -> Sizes:
    """The values of the variant that a command names; MS0634 where there is none of this name."""
    if name is None:
        return values
    spec = resolved.spec
    known = [variant.name.value for variant in spec.all_of(ast.VariantDecl)]
    if name in known:
        return replace(values, variant=name)
    near = did_you_mean(name, known)
    listed = " or ".join(f"`{variant}`" for variant in near or known)
    help_ = f"did you mean {listed}?" if near else f"it has {listed or 'none'}"
    found = Diagnostic(
        code="MS0634",
        message=f"`{spec.model.name.text}` has no variant `{name}`",
        primary=Label(span=spec.model.name.span, text="the model of this spec"),
    )
    sink.report(found.help(help_))
    return values


def for_the_spec(deployment: "Deployment", spec: ast.Spec) -> "Deployment":
    """The deployment with the spec's own name of its model, where it names a variant."""
    variants = {variant.name.value for variant in spec.all_of(ast.VariantDecl)}
    if deployment.model.value not in variants:
        return deployment
    return replace(deployment, model=replace(deployment.model, value=spec.model.name.text))


def config_item(name: str, spec: ast.Spec) -> ast.ConfigItem | None:
    """The config item that a public name means: its own, or one of its `as`."""
    for item in spec.config_items:
        if name == item.name.text or any(alias.value == name for alias in item.aliases):
            return item
    return None


def _of_deployments(
    deployments: "Sequence[Deployment]", resolved: Resolved, sink: DiagnosticSink
) -> Sizes:
    spec = resolved.spec
    variants = {variant.name.value for variant in spec.all_of(ast.VariantDecl)}
    config: dict[str, ConfigValue] = {}
    spans: dict[str, Span] = {}
    first: Deployment | None = None
    for deployment in deployments:
        name = deployment.model.value
        if first is not None and name != first.model.value:
            message = "the deployments are of two variants of the model"
            _disagree(message, deployment.model.span, first.model.span, sink)
        first = first or deployment
        own: dict[str, tuple[ConfigValue, Span]] = {}
        for kwarg in deployment.kwargs:
            item = config_item(kwarg.name.value, spec)
            if item is None:
                _report_kwarg(kwarg, resolved, sink)
            else:
                own[item.name.text] = (kwarg.value, kwarg.span)
        for key in sorted(own.keys() | config.keys()):
            value, span = own.get(key, (None, deployment.model.span))
            if deployment is not first and config.get(key) != value:
                message = f"the deployments give `{key}` different values"
                _disagree(message, span, spans.get(key, first.model.span), sink)
        if deployment is first:
            config = {key: value for key, (value, _) in own.items()}
            spans = {key: span for key, (_, span) in own.items()}
    variant = first.model.value if first is not None and first.model.value in variants else None
    return Sizes(variant=variant, config=config, spans=spans)


def _report_kwarg(kwarg: "Kwarg", resolved: Resolved, sink: DiagnosticSink) -> None:
    """A name that no config value has: an option of requests, a misspelt one, or of no use here."""
    from mstarc.deployment.idle import report_idle

    name, spec = kwarg.name.value, resolved.spec
    options = {field.name.text for field in spec.request_fields if isinstance(field, ast.OptField)}
    if name in options:
        report_idle(name, kwarg.name.span, "it is an option: each request says it", sink)
        return
    near = did_you_mean(name, _public_names(spec.config_items))
    model = spec.model.name.text
    if near:
        found = Diagnostic(
            code="MS0603",
            message=f"unknown key `{name}` in `model_kwargs`",
            primary=Label(span=kwarg.name.span, text=f"`{model}` has no config value of this name"),
        )
        sink.report(found.help(f"did you mean {' or '.join(f'`{n}`' for n in near)}?"))
        return
    if kwarg.span.path.startswith("--set "):
        # A file may be another system's as well; the command line is ours alone.
        found = Diagnostic(
            code="MS0633",
            message=f"there is no setting `{name}`",
            primary=Label(span=kwarg.span, text=f"no config value of `{model}` either"),
        )
        listed = ", ".join(f"`{known}`" for known in _public_names(spec.config_items))
        help_ = f"config values are {listed}; docs/deployment.md has the settings"
        sink.report(found.help(help_))
        return
    why = f"`{model}` has no config value of this name: what it decides elsewhere, "
    report_idle(name, kwarg.name.span, why + "requests or the plan decide here", sink)


def _public_names(items: Iterable[ast.ConfigItem]) -> list[str]:
    return [name for item in items for name in (item.name.text, *(a.value for a in item.aliases))]


def _disagree(message: str, span: Span, first: Span, sink: DiagnosticSink) -> None:
    primary = Label(span=span, text="here")
    found = Diagnostic(code="MS0632", message=message, primary=primary)
    found = found.label(first, "and otherwise here")
    sink.report(found.help("compile each of them to a plan of its own"))


def _has_weights(node: ast.NodeDecl) -> bool:
    return any(isinstance(item, ast.WeightsItem) for item in node.items)


def _without(spans: Mapping[str, Span], names: set[str]) -> dict[str, Span]:
    return {name: span for name, span in spans.items() if name not in names}
