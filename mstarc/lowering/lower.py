"""Lower a whole spec."""

from mstarc.ir import graph as ir
from mstarc.lowering.declarations import (
    lower_inputs,
    lower_lets,
    lower_nodes,
    lower_options,
    lower_outputs,
    lower_streams,
    lower_tables,
)
from mstarc.lowering.exprs import Exprs
from mstarc.lowering.machines import lower_machine
from mstarc.lowering.variants import without_outputs
from mstarc.lowering.walks import lower_walk
from mstarc.syntax import ast
from mstarc.typecheck import Typed


def lower(typed: Typed) -> ir.Program:
    """The program of a spec in which no error was found. Its parts keep the spec's order."""
    spec = typed.resolved.spec
    exprs = Exprs(typed, {})
    program = ir.Program(
        model=spec.model.name.text,
        checkpoint=_checkpoint(typed),
        config=tuple(typed.config.items()),
        inputs=lower_inputs(typed),
        outputs=lower_outputs(typed),
        options=lower_options(typed),
        needs=tuple(
            ir.Need(condition=exprs.lower(need.condition), span=need.span)
            for need in spec.all_of(ast.NeedDecl)
        ),
        lets=lower_lets(typed),
        tables=lower_tables(typed),
        nodes=lower_nodes(typed),
        streams=lower_streams(typed),
        walks=tuple(lower_walk(walk, typed) for walk in typed.walks.values()),
        machines=tuple(
            lower_machine(symbol.of(ast.MachineDecl), typed)
            for symbol in typed.resolved.symbols.machines.values()
        ),
        folded=tuple(
            (folded.alias.value, folded.node.text) for folded in spec.all_of(ast.FoldedDecl)
        ),
    )
    return without_outputs(program, typed.left_out)


def _checkpoint(typed: Typed) -> str | None:
    """Where weights come from: the variant's checkpoint stands above the model's."""
    model, variant = typed.resolved.spec.model.source, typed.variant
    source = variant.source if variant is not None and variant.source is not None else model
    return None if source is None else source.value
