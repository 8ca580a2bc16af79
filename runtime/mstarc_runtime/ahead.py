"""The next step of a group, prepared while the device still runs the one before.

Preparing is host work and copies that stand behind the running step in the device's own order, so
it may begin at once; launching may not, because the running step's flags decide who takes part.
They nearly always say what was expected. If they do not, or anything else happens before the
launch, what was prepared is taken back: `give_back` must be called before any row moves and before
any other step is prepared.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.kvcache.errors import ContextError, OutOfPages
from mstarc_runtime.scheduler import Group

if TYPE_CHECKING:
    from mstarc_runtime.stepping import Stepper


class Ahead:
    """At most one step of one rank."""

    def __init__(self, stepper: "Stepper", *, is_used: bool) -> None:
        self._stepper = stepper
        self.is_used = is_used
        self._group: Group | None = None
        self._batch: StepBatch | None = None

    def prepare(self, group: Group, batch: StepBatch) -> None:
        """Prepares the group's next step, if it can be foreseen and there is room for it."""
        step = batch.step
        if not self.is_used or group.calm <= 1 or step.prepare is None:
            return
        # A step that asks for its pass, or takes a chunk, is made ready by what has landed; and a
        # fork can't be taken back.
        if step.passes or step.reads or step.pulls or batch.moves_contexts:
            return
        try:
            self._stepper.grow(batch)
        except (OutOfPages, ContextError):
            # Who has no room is found when it is this step's turn.
            self._stepper.shrink(batch)
            return
        self._group, self._batch = group, batch

    def is_for(self, group: Group) -> bool:
        """Whether a step of this group is prepared."""
        return self._group is group

    def take(self, group: Group, batch: StepBatch) -> bool:
        """Whether this very step was prepared; it is the caller's from now on."""
        is_it = self._group is group and self._batch is batch
        if is_it:
            self._group = self._batch = None
        return is_it

    def make_way(self, nodes: Collection[str]) -> None:
        """Gives back what is prepared if a step of these nodes is to be prepared."""
        if self._batch is not None and not set(nodes).isdisjoint(self._batch.step.nodes):
            self.give_back()

    def give_back(self) -> None:
        """Nothing is prepared any more."""
        if self._batch is not None:
            self._stepper.shrink(self._batch)
            self._group = self._batch = None
