"""Make a plan of placed programs.

Each placement gives a program that the passes have finished; all of them come from one spec, so
that what does not depend on a placement (admission, messages) is the same in each.
"""

from collections.abc import Sequence
from dataclasses import replace

from mstarc.deployment.sizes import NodeSizes
from mstarc.diagnostics import DiagnosticSink, InternalError
from mstarc.ir.exprs import Const, Expr, LetRef, Option
from mstarc.ir.graph import Node, Program
from mstarc.plan.abi import PLAN_ABI
from mstarc.plan.flatten import Flattener
from mstarc.plan.holdings import count_name
from mstarc.plan.layout import place_plan
from mstarc.plan.plan import Admission, Derived, NodeWeights, PlacedPlan, Plan
from mstarc.plan.regions import trim_regions
from mstarc.plan.signatures import Signatures
from mstarc.source import SourceFile


def build_plan(
    programs: Sequence[Program],
    source: SourceFile,
    sink: DiagnosticSink,
    *,
    version: str,
    weights: Sequence[NodeSizes] = (),
) -> Plan | None:
    """The plan of one program a placement; None where `sink` got an error.

    `source` is the spec, for line numbers. `weights` stand above what the spec says of nodes.
    """
    assert programs, "a plan has a placement"
    chosen = node_weights(programs[0], weights)
    bounds: dict[str, Expr] = {}
    derived: dict[str, Derived] = {}
    placed: list[PlacedPlan] = []
    for trimmed in map(trim_regions, programs):
        if trimmed.placement is None:
            raise InternalError("a program without a placement", stage="plan")
        program = _with_named_settings(trimmed, derived)
        flatteners = _flatten(program, source, derived)
        placed.append(place_plan(program, flatteners, chosen))
        for flattener in flatteners:
            bounds.update(flattener.loops.bounds)
    if sink.has_errors:
        return None
    return Plan(
        abi=PLAN_ABI,
        version=version,
        spec=source.path,
        program=programs[0],
        admission=Admission(bounds=tuple(bounds.items()), derived=tuple(derived.items())),
        weights=chosen,
        placements=tuple(placed),
    )


def _flatten(program: Program, source: SourceFile, derived: dict[str, Derived]) -> list[Flattener]:
    signatures = Signatures(program)
    flatteners = []
    for machine in program.machines:
        flattener = Flattener(program, machine, signatures, source, derived)
        flattener.run()
        flatteners.append(flattener)
    return flatteners


def _with_named_settings(program: Program, derived: dict[str, Derived]) -> Program:
    """The program in which samplers' settings are numbers or names: admission computes the rest.

    How many contexts an array has is computed there too.
    """

    def named(node: Node, sampler: str, setting: str, value: Expr) -> Expr:
        if isinstance(value, Const | Option | LetRef):
            return value
        name = f"{node.name}.{sampler}.{setting}"
        derived[name] = value
        return Option(name)

    nodes = []
    for node in program.nodes:
        samplers = tuple(
            (sampler, tuple((name, named(node, sampler, name, value)) for name, value in settings))
            for sampler, settings in node.samplers
        )
        for context in node.contexts:
            if not isinstance(context.count, Const | Option | LetRef | None):
                derived[count_name(node.name, context.name)] = context.count
        nodes.append(replace(node, samplers=samplers))
    return replace(program, nodes=tuple(nodes))


def node_weights(program: Program, sizes: Sequence[NodeSizes]) -> tuple[NodeWeights, ...]:
    """Where each node's weights come from: what a file of sizes says, its own, or the model's."""
    given = {entry.node: entry for entry in sizes}
    return tuple(_weights(node, program, given.get(node.name)) for node in program.nodes)


def _weights(node: Node, program: Program, given: NodeSizes | None) -> NodeWeights:
    own = node.weights
    source = program.checkpoint or "" if own is None else own.source
    under = "" if own is None else own.under
    if given is None:
        return NodeWeights(node=node.name, source=source, under=under)
    if given.source is not None:
        source, under = given.source, given.under
    return NodeWeights(
        node=node.name,
        source=source,
        under=given.under or under,
        seed=given.seed,
        config=dict(given.config),
        size_bytes=given.size_bytes,
        kept_bytes=given.kept_bytes,
    )
