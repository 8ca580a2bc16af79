"""Cut `for part in parts` into passes, and `match` into a step an arm.

Before:  for part in parts { match part { text(t) { … } image(i) { … } } }
After:   enter think.part;  branch: part is text -> the text's steps, again;  the image's, again

A part is a pass of a loop that only its count ends. Which part a pass is at is a number on the
host, so that a host step finds the part by it and a branch its kind.
"""

from typing import TYPE_CHECKING

from mstarc.ir.exprs import Binary, Const, Input, PartAttribute
from mstarc.ir.graph import ForParts, Match
from mstarc.ir.types import PartsType
from mstarc.plan.draft import LoopEdge
from mstarc.plan.ranks import first_rank, last_rank
from mstarc.plan.scope import Scope

if TYPE_CHECKING:
    from mstarc.plan.flatten import Flattener


class PartsFlattener:
    """The part of a `Flattener` that knows parts of an input."""

    def __init__(self, flattener: "Flattener") -> None:
        self.flattener = flattener

    def each_part(self, loop: ForParts, scope: Scope) -> None:
        """One pass a part."""
        flattener, drafting = self.flattener, self.flattener.drafting
        name = flattener.loops.declare(f"{scope.place.machine}.{loop.part}")
        line = flattener.line(loop.span)
        home = last_rank(loop.body, flattener.walks)
        home = drafting.rank if home is None else home
        flattener.loops.bounds[name] = Input(loop.over)
        flattener.loops.tested[name] = False
        flattener.loops.ranks[name] = home
        flattener.turns.enter(name, loop.part, Input(loop.over), is_part=True)
        first, otherwise = drafting.label(), drafting.label()
        draft = drafting.open_step(home, scope.place, line)
        draft.role = draft.role or ("enter" if not draft.calls and not draft.reads else "")
        drafting.close(LoopEdge("enter", name, first, otherwise))
        drafting.put_label(first)
        drafting.rank = first_rank(loop.body, flattener.walks) or home
        flattener.body(loop.body, scope)
        drafting.again(LoopEdge("again", name, first, otherwise), home, scope.place, line)
        flattener.turns.leave(loop.part)
        drafting.put_label(otherwise)

    def match(self, match: Match, scope: Scope) -> None:
        """A choice an arm by the part's kind; the last of all kinds needs none."""
        flattener, drafting = self.flattener, self.flattener.drafting
        loop = flattener.turns.loop_of(match.part)
        kinds = self._kinds(loop)
        join = drafting.label()
        rank = drafting.rank
        for arm in match.arms:
            kinds -= {arm.kind}
            other = drafting.label()
            drafting.rank = rank
            if kinds:
                is_kind = Binary("==", PartAttribute(match.part, "kind"), Const(arm.kind))
                name = f"{loop}.is_{arm.kind}"
                flattener.effects.branch(scope, is_kind, name, arm.span)
                draft = drafting.current
                assert draft is not None
                draft.text = f"{match.part} is {arm.kind}"
                draft.role = f"is_{arm.kind}"
                draft.yes, draft.no = drafting.label(), other
                drafting.current = None
                drafting.put_label(draft.yes)
            scope.values[arm.value.name] = PartAttribute(loop, "value")
            flattener.body(arm.body, scope)
            drafting.jump(join)
            drafting.put_label(other)
        drafting.put_label(join)

    def _kinds(self, loop: str) -> set[str]:
        over = self.flattener.turns.loops[loop].over
        assert isinstance(over, Input)
        field = next(f for f in self.flattener.program.inputs if f.name == over.name)
        assert isinstance(field.type, PartsType)
        return {kind.kind for kind in field.type.kinds}
