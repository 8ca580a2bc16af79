"""Where to place, and what is known about the devices there: options → one `PassContext` each.

`targets_of` reads deployments, device kinds and a profile; `with_weights` adds how large the
weights of each node are, which takes the program.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mstarc.analysis.checkpoints import read_config, read_tensors
from mstarc.analysis.placement.problem import DEFAULT_OBJECTIVE, OBJECTIVES
from mstarc.analysis.weighing import Sources, weigh
from mstarc.deployment import (
    CATALOG,
    DeviceKind,
    Devices,
    device_kind,
    parse_devices,
    read_deployment,
)
from mstarc.deployment.catalog import MOST_DEVICES
from mstarc.deployment.settings import settled, settled_alone
from mstarc.deployment.sizes import NodeSizes, SizesFile
from mstarc.diagnostics import Diagnostic, DiagnosticSink, Label, did_you_mean
from mstarc.ir.graph import Program
from mstarc.ir.types import DTYPE_BYTES
from mstarc.options import DEFAULT_PLACEMENT, CompileOptions
from mstarc.passes.context import PassContext
from mstarc.source import Span


def targets_of(options: CompileOptions, sink: DiagnosticSink) -> list[PassContext]:
    """Each deployment, or each set of devices, or one CPU; none of them after an error."""
    kinds = CATALOG
    if options.kinds is not None:
        from mstarc.deployment.kinds import read_kinds  # loaded here: few name devices of their own

        kinds = read_kinds(options.kinds, sink) or CATALOG
    profile = None
    if options.profile is not None:
        from mstarc.deployment.profile import read_profile, with_facts  # loaded here: few have one

        profile = read_profile(options.profile, kinds, sink)
        if profile is not None:
            kinds = tuple(with_facts(kind, profile) for kind in kinds)
    devices: list[Devices | None] = []
    default_kind = options.default_kind
    for text in dict.fromkeys(options.placements):
        if options.deployments and device_kind(text, kinds) is not None:
            default_kind = text  # of this kind, as many as the deployment has ranks
            continue
        devices.append(parse_devices(text, kinds))
        if devices[-1] is None:
            sink.report(unknown_devices(text, kinds))
    if not devices and not options.deployments:
        devices.append(parse_devices(DEFAULT_PLACEMENT, kinds))
    common = PassContext(
        sink=sink,
        kinds=kinds,
        profile=profile,
        default_kind=default_kind,
        objective=next((o for o in OBJECTIVES if o == options.objective), DEFAULT_OBJECTIVE),
        require_graphs=options.require_graphs,
    )
    if not options.deployments:
        alone = settled_alone(options.settings, sink)
        return [replace(common, devices=on, settings=alone) for on in devices]
    assert len(devices) <= 1, "deployments are placed on one set of devices"
    found: list[PassContext] = []
    for file in options.deployments:
        deployment = read_deployment(file, sink, kinds)
        if deployment is not None:
            deployment = settled(deployment, options.settings, sink)
            # Kinds of the file's own stand above the command line's.
            own = deployment.kinds or kinds
            on = devices[0] if devices else None
            if on is None and default_kind != options.default_kind and deployment.devices:
                on = parse_devices(f"{deployment.devices.count}x{default_kind}", own)
            found.append(replace(common, kinds=own, devices=on, deployment=deployment))
    return found


def unknown_devices(text: str, kinds: Sequence[DeviceKind]) -> Diagnostic:
    """MS0601, with what may have been meant."""
    names = [kind.name for kind in kinds]
    part = next((p for p in text.split("+") if parse_devices(p, kinds) is None), text)
    kind = part.strip().lstrip("0123456789").removeprefix("x")
    count = part.strip().removesuffix(kind)
    if kind in names:
        many = f"a placement is of 1 to {MOST_DEVICES} devices"
        return Diagnostic(
            code="MS0601",
            message=f"`{text}` is not a number of devices",
            primary=Label(span=Span(path="", start=0, end=0)),
            helps=(f"{many}, such as `2x{kind}`",),
        )
    return Diagnostic(
        code="MS0601",
        message=f"unknown devices `{text}`",
        primary=Label(span=Span(path="", start=0, end=0)),
        helps=(
            *(f"did you mean `{count}{near}`?" for near in did_you_mean(kind, names)[:1]),
            "write a count and a kind, such as `2xH200` or `cpu`",
            f"kinds are {', '.join(f'`{known}`' for known in names)}",
        ),
    )


def with_weights(
    context: PassContext,
    program: Program,
    options: CompileOptions,
    sizes: SizesFile | None,
) -> PassContext:
    """The context with the size of every node's weights on its devices, and what says so."""
    kind = (
        context.devices.kind
        if context.devices is not None
        else context.deployment.devices.kind
        if context.deployment is not None and context.deployment.devices is not None
        else context.kind(context.default_kind)
    )
    found = weigh(program, _sources(program, context, options, sizes, kind), kind.dtype)
    return replace(
        context,
        weight_bytes={name: weight.bytes for name, weight in found.items()},
        weight_sources={name: weight.by for name, weight in found.items()},
        kept_bytes={
            entry.node: entry.kept_bytes
            for entry in (sizes.weights if sizes is not None else ())
            if entry.kept_bytes is not None
        },
    )


def _measured(context: PassContext, kind: DeviceKind) -> dict[str, int]:
    """Bytes of a profile's weights on a kind, which may keep them in another dtype."""
    profile = context.profile
    if profile is None:
        return {}
    each = DTYPE_BYTES[context.kind(profile.device).dtype]
    return {name: size * DTYPE_BYTES[kind.dtype] // each for name, size in profile.weights.items()}


def _sources(
    program: Program,
    context: PassContext,
    options: CompileOptions,
    sizes: SizesFile | None,
    kind: DeviceKind,
) -> Sources:
    entries: Sequence[NodeSizes] = sizes.weights if sizes is not None else ()
    configs: dict[str, Mapping[str, Any]] = {e.node: e.config for e in entries if e.config}
    if sizes is not None and sizes.checkpoint:
        configs.setdefault("", sizes.checkpoint)
    tensors = {}
    names = [node.name for node in program.nodes]
    for folder in options.checkpoints:
        if folder.node and folder.node not in names:
            near = did_you_mean(folder.node, names)
            helps = (f"did you mean `{near[0]}`?",) if near else (f"nodes are {', '.join(names)}",)
            place = Label(span=Span(path="", start=0, end=0))
            message = f"the spec has no node `{folder.node}`, which `{folder.path}` is for"
            found = Diagnostic(code="MS0010", message=message, primary=place, helps=helps)
            context.sink.report(found)
        tensors[folder.node] = read_tensors(folder, context.sink)
        config = read_config(folder)
        if config is not None:
            configs.setdefault(folder.node, config)
    return Sources(
        given={e.node: e.size_bytes for e in entries if e.size_bytes is not None},
        measured=_measured(context, kind),
        tensors=tensors,
        configs=configs,
        replaced=frozenset(e.node for e in entries if e.source is not None or e.config),
    )
