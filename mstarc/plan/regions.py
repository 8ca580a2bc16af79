"""Leave out of capture regions what a step's layout keeps out.

Before:  region "hear_question.0" sites (#hear_question/0, #hear_question/1)
After:   region "hear_question.0" sites (#hear_question/0)
         uncaptured #hear_question/1 "`write.start` takes `prompt` packed, …"

A region has shapes that a batch bucket fixes. A `kv_cache` op with a free dim takes the rows of all
requests one behind the other, and the runtime makes its page tables anew for each run. So such
calls run outside of graphs, and the report says so. One of a number of rows that the plan knows is
not among them. Nor is a call in a graph whose result becomes a machine's value that has other sizes
elsewhere: such a value has no place of its own.
"""

from dataclasses import replace

from mstarc.ir.decisions import Region, Uncaptured
from mstarc.ir.exprs import Const, Expr, Local
from mstarc.ir.graph import Assign, Call, Program, Run, Value
from mstarc.ir.walking import Body, all_statements, locals_of, statements_of
from mstarc.plan.signatures import Signatures, has_free_dim, where_there


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
    """By site, why no graph holds a call."""
    signatures = Signatures(program)
    found = _kept_in_no_place(program)
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


def _kept_in_no_place(program: Program) -> dict[str, str]:
    """By site, which value of a machine has the sizes of a call's result, and others elsewhere."""
    walks = {walk.name: walk for walk in program.walks}
    found: dict[str, str] = {}
    for machine in program.machines:
        for state in machine.states:
            for statement in statements_of(state.body):
                if not isinstance(statement, Call | Run):
                    continue
                made: list[tuple[Value, Expr, Body]] = []
                if isinstance(statement, Call):
                    made = [(r, Local(r.name), (statement,)) for r in statement.results if r]
                else:
                    walk = walks[statement.walk]
                    values = zip(statement.results, walk.returns, strict=True)
                    made = [(result, value, walk.body) for result, value in values if result]
                for result, value, body in made:
                    if has_free_dim(where_there(result.type)):
                        reason = (
                            f"`{result.name}` keeps what it gives, and has other sizes elsewhere"
                        )
                        found.update(dict.fromkeys(_makers(value, body), reason))
    return found


def _makers(value: Expr, body: Body) -> list[str]:
    """The calls whose results a value is, or is reshaped from."""
    names = set(locals_of(value))
    statements = list(statements_of(body))
    for statement in reversed(statements):
        if isinstance(statement, Assign) and statement.result.name in names:
            names |= set(locals_of(statement.value))
    return [
        statement.site
        for statement in statements
        if isinstance(statement, Call)
        and any(result is not None and result.name in names for result in statement.results)
    ]
