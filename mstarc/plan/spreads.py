"""Cut a `parallel` over several ranks: the machine goes to each of them at once.

Before:  parallel { v = llm.step(x) on main   w = llm.step(x) on other }   ; main on 0, other on 1
After:   spread -> [step on rank 0], [hop to rank 1, step, hop back] -> join -> on, on rank 0

The spread and the join are on one rank, that of the machine or else of the first branch. A branch
whose choice says that nothing is to do goes from the spread to the join.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from mstarc.analysis.control import first_call, side_by_side
from mstarc.ir.graph import Parallel
from mstarc.plan.draft import Goto
from mstarc.plan.scope import Scope
from mstarc.plan.together import alternatives

if TYPE_CHECKING:
    from mstarc.plan.flatten import Flattener


class SpreadFlattener:
    """The part of a `Flattener` that knows branches."""

    def __init__(self, flattener: "Flattener") -> None:
        self.flattener = flattener

    def parallel(self, parallel: Parallel, scope: Scope) -> None:
        """Branches of one rank in turn, or as one call (`together`). Those of several at once."""
        flattener, drafting = self.flattener, self.flattener.drafting
        groups = side_by_side(flattener.program, parallel)
        if groups is None:
            either = alternatives(parallel, flattener.signatures)
            if either is not None:
                flattener.statement(either, scope)
                return
            for branch in parallel.branches:
                flattener.body(branch, scope)
            return
        firsts = [first_call(flattener.program, group) for group in groups]
        ranks = [call.home for call in firsts if call is not None]
        home = drafting.rank if drafting.rank in ranks else ranks[0]
        line = flattener.line(parallel.span)
        spread = drafting.start("spread", home, scope.place, line)
        spread.branches = tuple(drafting.label() for _ in groups)
        spread.text = f"goes on at ranks {', '.join(map(str, ranks))}"
        drafting.current = None
        meet, outside = drafting.label(), drafting.inside
        for number, (label, group) in enumerate(zip(spread.branches, groups, strict=True)):
            drafting.inside = (*outside, (spread, number))
            drafting.rank = home
            drafting.put_label(label)
            apart = replace(parallel, branches=tuple((statement,) for statement in group))
            either = alternatives(apart, flattener.signatures)
            flattener.body(group if either is None else (either,), scope)
            drafting.jump(meet)
        drafting.inside = outside
        drafting.put_label(meet)
        spread.join = drafting.start("join", home, scope.place, line)
        spread.join.text = f"{len(groups)} branches meet"
        behind = drafting.label()
        drafting.close(Goto(behind))
        drafting.put_label(behind)
