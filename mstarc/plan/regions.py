"""Leave out of capture regions what a step's layout keeps out.

Before:  region "hear_question.0" sites (#hear_question/0, #hear_question/1)
After:   region "hear_question.0" sites (#hear_question/0)
         uncaptured #hear_question/1 "`write.start` takes `prompt` packed, …"

A region has shapes that a batch bucket fixes. A `kv_cache` op with a free dim takes the rows of all
requests one behind the other, and the runtime makes its page tables anew for each run. So such
calls run outside of graphs, and the report says so. One of a number of rows that the plan knows is
not among them.
"""

from dataclasses import replace

from mstarc.ir.decisions import Region, Uncaptured
from mstarc.ir.exprs import Const
from mstarc.ir.graph import Call, Program
from mstarc.ir.walking import all_statements
from mstarc.plan.signatures import Signatures, has_free_dim


def trim_regions(program: Program) -> Program:
    """The program whose regions hold no call that takes its rows packed."""
    reasons = _reasons(program)
    regions: list[Region] = []
    for region in program.regions:
        pieces: list[list[str]] = [[]]
        for site in region.sites:
            if site in reasons:
                pieces.append([])
            else:
                pieces[-1].append(site)
        kept = [tuple(piece) for piece in pieces if piece]
        for number, sites in enumerate(kept):
            name = region.name if number == 0 else f"{region.name}.{number}"
            regions.append(replace(region, name=name, sites=sites))
    held = {site for region in program.regions for site in region.sites}
    left_out = [Uncaptured(site=s, reason=r) for s, r in reasons.items() if s in held]
    return replace(program, regions=tuple(regions), uncaptured=(*left_out, *program.uncaptured))


def _reasons(program: Program) -> dict[str, str]:
    """By site, why a call takes its rows packed."""
    signatures = Signatures(program)
    found: dict[str, str] = {}
    for call in all_statements(program):
        if not isinstance(call, Call) or signatures.nodes[call.node].engine != "kv_cache":
            continue
        op = signatures.ops[call.node, call.op]
        if op.advance is not None and not isinstance(op.advance, Const):
            found[call.site] = (
                f"`{call.node}.{call.op}` moves positions by what the request says, "
                "and no graph replays page tables of packed rows"
            )
        for parameter in op.parameters:
            if has_free_dim(parameter.type):
                found[call.site] = (
                    f"`{call.node}.{call.op}` takes `{parameter.name}` packed, "
                    "and no graph replays page tables of packed rows"
                )
    return found
