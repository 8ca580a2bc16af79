"""Cut reads of streams: an `each` into passes that wait for a chunk, a `pull` into a wait.

Before:  each states as s chunk until(prompt_end, max = 8) until prompt_end { run read(s.h) }
After:   step: waits for a chunk of `states.h` and `states.media`, cut so; goes on at the mark

A step that reads begins with it. What a `pull … or none` gives goes to calls of its own step.
"""

from typing import TYPE_CHECKING

from mstarc.ir.exprs import Const
from mstarc.ir.graph import Each, Machine, Pull, Stream, Value
from mstarc.ir.types import OptionalType, TensorType, TupleType, Type
from mstarc.ir.walking import statements_of
from mstarc.plan.actions import PullItem, Read
from mstarc.plan.draft import CutPlan, Label
from mstarc.plan.lanes import Lane, lanes_of
from mstarc.plan.ranks import first_rank
from mstarc.plan.scope import Scope

if TYPE_CHECKING:
    from mstarc.plan.flatten import Flattener


class ReadFlattener:
    """The part of a `Flattener` that knows reads."""

    def __init__(self, flattener: "Flattener") -> None:
        self.flattener = flattener
        self._in_step = _in_step(flattener.machine)
        self._homes: dict[str, int] = {}

    def _home(self, streams: tuple[str, ...], rank: int) -> int:
        """Where streams are read that are read in step: a buffer is on one rank, the first's."""
        return self._homes.setdefault(self._in_step.get(streams[0], streams[0]), rank)

    def each(self, each: Each, scope: Scope) -> None:
        """A pass a chunk; where the stream ends, or at the mark, the machine goes on."""
        drafting = self.flattener.drafting
        first, drained = drafting.label(), drafting.label()
        drafting.put_label(first)
        if each.last is None:
            self._chunk(each, scope, drained)
        else:
            # Where a chunk is the last is known when the next one is, or that there is none.
            last = drafting.label()
            for is_last in (False, True):
                drafting.last = None if is_last else last
                scope.values[each.last] = Const(is_last)
                self._chunk(each, scope, drained)
                drafting.jump(first)
                if not is_last:
                    drafting.put_label(last)
        drafting.jump(first)
        drafting.put_label(drained)

    def _chunk(self, each: Each, scope: Scope, drained: Label) -> None:
        """Read a chunk, and what is done with it."""
        flattener, drafting = self.flattener, self.flattener.drafting
        cut = self._cut(each)
        reads = tuple(
            Read(stream=lane.name, result=name)
            for stream, value in zip(each.streams, each.names, strict=True)
            for lane, name in self._define(flattener.streams[stream], value, scope)
        )
        drafting.reads = (reads, drained, cut)
        rank = first_rank(each.body, flattener.walks)
        rank = drafting.rank if rank is None else rank
        drafting.rank = self._home(each.streams, rank)
        line = flattener.line(each.span)
        if not each.body or isinstance(each.body[0], Each) or drafting.rank != rank:
            drafting.start("device", drafting.rank, scope.place, line)
            drafting.rank = rank
        flattener.body(each.body, scope)
        if drafting.reads is not None:
            drafting.start("device", drafting.rank, scope.place, line)

    def pull(self, pull: Pull, scope: Scope) -> None:
        """Wait for an item, or, with `or none`, for the end of the stream."""
        flattener, drafting = self.flattener, self.flattener.drafting
        rank, home = drafting.rank, self._home((pull.stream,), drafting.rank)
        draft = drafting.start("device", home, scope.place, flattener.line(pull.span))
        lanes = self._define(flattener.streams[pull.stream], pull.result, scope)
        draft.pulls = tuple(lane.name for lane, _ in lanes)
        for lane, name in lanes:
            there = None
            if pull.or_none:
                shown = lane.field or pull.result.name
                held = Value(name=f"{name}.there", type=TensorType("bool"))
                there = flattener.optional[name] = flattener.define(held, scope)
                flattener.hints[there] = f"{shown.split('.')[0]}_there"
            drafting.add(
                PullItem(stream=lane.name, result=name, there=there, sure=not pull.or_none)
            )
        drafting.rank = rank

    def _define(self, stream: Stream, value: Value, scope: Scope) -> list[tuple[Lane, str]]:
        """A variable a lane: of the value itself, or of its fields."""
        flattener = self.flattener
        lanes = lanes_of(stream)
        if lanes[0].field is None:
            return [(lanes[0], flattener.define(value, scope))]
        flattener.define(value, scope)
        types = _fields(value.type)
        return [
            (
                lane,
                flattener.define(
                    Value(name=f"{value.name}.{lane.field}", type=types[lane.field or ""]), scope
                ),
            )
            for lane in lanes
        ]

    def _cut(self, each: Each) -> CutPlan | None:
        if each.policy is None and each.until is None:
            return None
        streams = [self.flattener.streams[name] for name in each.streams]
        policy = each.policy or streams[0].policy
        return CutPlan(policy=policy, tail=streams[0].tail, until=each.until)


def _in_step(machine: Machine) -> dict[str, str]:
    """Streams that a machine reads in step with others: each by the name of one of them."""
    found: dict[str, str] = {}
    for state in machine.states:
        for each in statements_of(state.body):
            if not isinstance(each, Each) or len(each.streams) == 1:
                continue
            groups = {found.get(name, name) for name in each.streams}
            one = min(groups)
            found.update(dict.fromkeys(each.streams, one))
            found.update({name: one for name, group in found.items() if group in groups})
    return found


def _fields(type_: Type) -> dict[str, Type]:
    """The types of a tuple's fields; of one that may be none, as they are where it is there."""
    item = type_.item if isinstance(type_, OptionalType) else type_
    assert isinstance(item, TupleType)
    return {
        name: field.item if isinstance(field, OptionalType) else field
        for name, field in item.fields
        if isinstance(field, TensorType | OptionalType)
    }
