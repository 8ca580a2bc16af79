"""Make a plan of placed programs.

Each placement gives a program that the passes have finished; all of them come from one spec, so
that what does not depend on a placement (admission, messages) is the same in each.
"""

from collections.abc import Sequence

from mstarc.diagnostics import DiagnosticSink, InternalError
from mstarc.ir.exprs import Expr
from mstarc.ir.graph import Node, Program
from mstarc.plan.abi import PLAN_ABI
from mstarc.plan.flatten import Flattener
from mstarc.plan.layout import place_plan
from mstarc.plan.plan import Admission, NodeWeights, PlacedPlan, Plan
from mstarc.plan.refuse import NotBuiltError
from mstarc.plan.signatures import Signatures
from mstarc.source import SourceFile


def build_plan(
    programs: Sequence[Program],
    source: SourceFile,
    sink: DiagnosticSink,
    *,
    version: str,
    weights: Sequence[NodeWeights] = (),
) -> Plan | None:
    """The plan of one program a placement; None where `sink` got an error.

    `source` is the spec, for line numbers. `weights` replace what the spec says of nodes.
    """
    assert programs, "a plan has a placement"
    chosen = node_weights(programs[0], weights)
    bounds: dict[str, Expr] = {}
    derived: dict[str, Expr] = {}
    placed: list[PlacedPlan] = []
    for program in programs:
        if program.placement is None:
            raise InternalError("a program without a placement", stage="plan")
        try:
            flatteners = _flatten(program, source, derived)
            placed.append(place_plan(program, flatteners, chosen))
        except NotBuiltError as error:
            sink.report(error.diagnostic)
            continue
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


def _flatten(program: Program, source: SourceFile, derived: dict[str, Expr]) -> list[Flattener]:
    signatures = Signatures(program)
    flatteners = []
    for machine in program.machines:
        flattener = Flattener(program, machine, signatures, source, derived)
        flattener.run()
        flatteners.append(flattener)
    return flatteners


def node_weights(program: Program, overrides: Sequence[NodeWeights]) -> tuple[NodeWeights, ...]:
    """Where each node's weights come from: what was set, else its own, else the model's."""
    given = {weights.node: weights for weights in overrides}
    return tuple(given.get(node.name) or _own(node, program) for node in program.nodes)


def _own(node: Node, program: Program) -> NodeWeights:
    if node.weights is not None:
        return NodeWeights(node=node.name, source=node.weights.source, under=node.weights.under)
    return NodeWeights(node=node.name, source=program.checkpoint or "")
