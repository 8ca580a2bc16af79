"""Engines of nodes of which several ranks hold a part.

A leading engine is one whose operations are noted for the other ranks; a following one does what
was noted, on a batch that stands for the leader's. What both hold afterwards is the same, but for
the part of each head or row that is theirs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mstarc_runtime.engine.dtypes import dtype_name, torch_dtype
from mstarc_runtime.engine.following_graphs import FollowingGraphs
from mstarc_runtime.engine.kv_cache import KVEngine
from mstarc_runtime.engine.op_results import OpResults
from mstarc_runtime.engine.prompt_units import PromptUnits
from mstarc_runtime.engine.stateless import StatelessEngine
from mstarc_runtime.layers.shard import Collectives
from mstarc_runtime.messages import BatchRows, NodeAction
from mstarc_runtime.plan_api import Maybe
from mstarc_runtime.streaming.counts import Slots

# Operations on the contexts of a batch's rows, and on those of one slot.
_OF_BATCH = ("grow", "peek", "fork", "clear", "shrink")
_OF_SLOT = (
    "admit",
    "release",
    "export",
    "replace",
    "release_context",
    "set_aside",
    "bring_back",
    "restore_sampler",
)
# Operations on what is kept of prompts.
_OF_PROMPTS = ("take_units", "hold_units", "whole_units", "drop_units")


def _unpacked(digests: Sequence[str]) -> list[bytes]:
    return [bytes.fromhex(digest) for digest in digests]


def packed_digests(digests: Sequence[bytes]) -> list[str]:
    """Digests of prompts as an argument that ranks are told."""
    return [digest.hex() for digest in digests]


class Recorder(Protocol):
    """Hears of the calls of a body that is recorded."""

    def call(self, followers: Any) -> None: ...


class Followers(Protocol):
    """The other ranks of a node's group (`grouping`). `can_record`: its calls can be in a graph."""

    can_record: bool

    def note(
        self,
        kind: str,
        arguments: Sequence[Any],
        named: Mapping[str, Any],
        batch: Any = None,
        op: str = "",
    ) -> None: ...

    def together(self, work: Callable[[], Any]) -> Any: ...

    def tell(self) -> None: ...

    @property
    def is_in_graph(self) -> bool: ...

    @property
    def recorder(self) -> "Recorder | None": ...


def _described(value: Any) -> Any:
    """An argument as far as a buffer for it needs: its kind, type and dims, or the value."""
    if isinstance(value, Tensor):
        return ["tensor", dtype_name(value.dtype), list(value.shape)]
    if isinstance(value, Maybe):
        return ["maybe", dtype_name(value.value.dtype), list(value.value.shape)]
    return ["plain", value]


def _buffer(described: Any, device: torch.device) -> Any:
    kind, dtype, *dims = described
    if kind == "plain":
        return dtype
    value = torch.zeros(dims[0], dtype=torch_dtype(dtype), device=device)
    if kind == "tensor":
        return value
    return Maybe(value, torch.zeros(dims[0][0], dtype=torch.bool, device=device))


def _broadcast(value: Any, group: Collectives) -> Any:
    """The leader's value of an argument, on every rank of the group."""
    if isinstance(value, Tensor):
        return group.broadcast(value.contiguous())
    if isinstance(value, Maybe):
        value_of = group.broadcast(value.value.contiguous())
        return Maybe(value_of, group.broadcast(value.there.contiguous()))
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredStep:
    """What an engine asks of a batch's step."""

    name: str
    rows: str


@dataclass(slots=True, kw_only=True)
class MirroredBatch:
    """A batch of the leader, as far as engines look at one."""

    step: MirroredStep
    bucket: int
    slots: Slots
    slot_list: list[int]
    device: torch.device
    old: int
    growth: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    contexts: dict[Any, Any] = field(default_factory=dict)
    step_contexts: dict[Any, Any] = field(default_factory=dict)
    passes: int = 1
    moves_contexts: bool = False
    # The leader tells by how much positions move in a piece of a prompt.
    is_partial: bool = False

    @property
    def size(self) -> int:
        return len(self.slot_list)


class Notes:
    """Makes the batches that a leader's actions are about.

    Slots that stay the same are the same array: engines know their rows again by it.
    """

    def __init__(self) -> None:
        self._batch: MirroredBatch | None = None
        self._rows: BatchRows | None = None
        self._now: tuple[MirroredStep, Slots, list[int]] | None = None
        self._slots: dict[tuple[str, int], Slots] = {}

    def batch(self, action: NodeAction, device: torch.device) -> MirroredBatch | None:
        """The batch of an action: that of the one before, unless it is new."""
        if not action.is_new:
            return self._batch
        if (told := action.batch) is not None:
            step = MirroredStep(name=told.step, rows=told.rows)
            self._rows, self._now = told, (step, self._same(told), list(told.slots))
        assert self._rows is not None and self._now is not None, "rows are told once"
        step, slots, slot_list = self._now
        self._batch = MirroredBatch(
            step=step,
            bucket=self._rows.bucket,
            slots=slots,
            slot_list=slot_list,
            device=device,
            old=self._rows.old,
            passes=self._rows.passes,
        )
        return self._batch

    def _same(self, told: BatchRows) -> Slots:
        wanted = (told.step, told.bucket)
        known = self._slots.get(wanted)
        if known is None or known.tolist() != list(told.slots):
            known = self._slots[wanted] = np.array(told.slots, dtype=np.int64)
        return known


@dataclass(slots=True, kw_only=True)
class LeadingKVEngine(KVEngine):
    """A node with KV contexts whose other parts are on other ranks."""

    followers: Followers

    def grow(self, batch: Any, *given: Any, **named: Any) -> None:
        KVEngine.grow(self, batch, *given, **named)
        if "advance" in named and batch.is_partial:
            named["advance"] = 0
        self.followers.note("grow", given, named, batch)

    def peek(self, batch: Any, *given: Any, **named: Any) -> None:
        KVEngine.peek(self, batch, *given, **named)
        self.followers.note("peek", given, named, batch)

    def fork(self, batch: Any, *given: Any, **named: Any) -> None:
        KVEngine.fork(self, batch, *given, **named)
        self.followers.note("fork", given, named, batch)

    def clear(self, batch: Any, *given: Any, **named: Any) -> None:
        KVEngine.clear(self, batch, *given, **named)
        self.followers.note("clear", given, named, batch)

    def shrink(self, batch: Any) -> None:
        KVEngine.shrink(self, batch)
        self.followers.note("shrink", (), {}, batch)

    def admit(self, slot: int, options: Mapping[str, Any], seed: int) -> None:
        KVEngine.admit(self, slot, options, seed)
        self.followers.note("admit", (slot, dict(options), seed), {})

    def release(self, slot: int) -> None:
        KVEngine.release(self, slot)
        self.followers.note("release", (slot,), {})

    def export(self, slot: int, context: str) -> Tensor:
        self.followers.note("export", (slot, context), {})
        rows: Tensor = self.followers.together(lambda: KVEngine.export(self, slot, context))
        return rows

    def replace(self, slot: int, context: str, rows: Tensor, position: int) -> None:
        KVEngine.replace(self, slot, context, rows, position)
        self.followers.note("replace", (slot, context, rows, position), {})

    def release_context(self, slot: int, context: str) -> None:
        KVEngine.release_context(self, slot, context)
        self.followers.note("release_context", (slot, context), {})

    def set_aside(self, slot: int) -> None:
        KVEngine.set_aside(self, slot)
        self.followers.note("set_aside", (slot,), {})

    def bring_back(self, slot: int) -> None:
        KVEngine.bring_back(self, slot)
        self.followers.note("bring_back", (slot,), {})

    def take_back(self, slots: Slots, context: str, rows: NDArray[np.int64]) -> None:
        KVEngine.take_back(self, slots, context, rows)
        self.followers.note("take_back", (slots.tolist(), context, rows.tolist()), {})

    def restore_sampler(self, slot: int, name: str, draws: int, seen: Tensor | None) -> None:
        KVEngine.restore_sampler(self, slot, name, draws, seen)
        self.followers.note("restore_sampler", (slot, name, draws, seen), {})

    def _make_call(self, op: str) -> Callable[..., Any]:
        call = KVEngine._make_call(self, op)

        def led(batch: Any, *arguments: Any, **named: Any) -> Any:
            if self.followers.is_in_graph:
                if self.followers.recorder is not None:
                    described = [_described(a) for a in arguments]
                    self.followers.note("capture", described, named, batch, op)
                    self.followers.tell()
                    self.followers.recorder.call(self.followers)
                return call(batch, *(self._spread(a) for a in arguments), **named)
            self.followers.note("call", arguments, named, batch, op)
            return self.followers.together(lambda: call(batch, *arguments, **named))

        return led

    def _spread(self, value: Any) -> Any:
        """An argument of a captured call, given to the other ranks in the graph itself."""
        assert self.shard.group is not None, "a node of one part has no followers"
        return _broadcast(value, self.shard.group)


class LeadingStatelessEngine(StatelessEngine):
    """A node without state whose other parts are on other ranks."""

    def __init__(
        self,
        name: str,
        module: torch.nn.Module,
        followers: Followers,
        results: Mapping[str, OpResults] = {},
    ) -> None:
        super().__init__(name, module, results=results)
        self._followers = followers

    def __getattr__(self, op: str) -> Callable[..., Any]:
        call = super().__getattr__(op)

        def led(batch: Any, *arguments: Any) -> Any:
            self._followers.note("call", arguments, {}, batch, op)
            return self._followers.together(lambda: call(batch, *arguments))

        self.__dict__[op] = led
        return led


class FollowingEngine:
    """Does with a node's part what its leader has done with its own."""

    def __init__(
        self,
        engine: KVEngine | StatelessEngine,
        device: torch.device,
        graphs: FollowingGraphs,
    ) -> None:
        self.device = device
        self.queue = graphs.queue
        self._engine = engine
        self._graphs = graphs
        self._units: PromptUnits | None = None

    def release(self, slot: int) -> None:
        """What a request holds here is given back when the leader does it."""

    def on_device(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.to(self.device)
        if isinstance(value, Maybe):
            return Maybe(value.value.to(self.device), value.there.to(self.device))
        return value

    def follow(
        self,
        kind: str,
        op: str,
        batch: MirroredBatch | None,
        arguments: Sequence[Any],
        named: Mapping[str, Any],
    ) -> None:
        """One action. Its result is the leader's affair."""
        if kind == "call":
            getattr(self._engine, op)(batch, *arguments, **named)
        elif kind == "capture":
            assert batch is not None, "a captured call has rows"
            self._capture(op, batch, arguments, named)
        elif kind == "capture_end":
            assert batch is not None, "a captured pass has rows"
            self._graphs.capture_end(batch)
        elif kind == "replay":
            assert batch is not None, "a captured call has rows"
            self._graphs.replay(batch, *arguments)
        elif kind in _OF_PROMPTS:
            self._follow_prompt(kind, arguments)
        elif kind in _OF_BATCH:
            getattr(self._engine, kind)(batch, *arguments, **named)
        elif kind == "take_back":
            slots, context, rows = arguments
            assert isinstance(self._engine, KVEngine), "rows are of nodes with contexts"
            self._engine.take_back(np.array(slots), context, np.array(rows))
        else:
            assert kind in _OF_SLOT, f"no engine does `{kind}`"
            getattr(self._engine, kind)(*arguments, **named)

    def _follow_prompt(self, kind: str, arguments: Sequence[Any]) -> None:
        """What the leader has done with units of prompts."""
        if self._units is None:
            assert isinstance(self._engine, KVEngine), "prompts are of nodes with contexts"
            self._units = PromptUnits(self._engine, is_told=True)
        units = self._units
        if kind == "drop_units":
            units.index.drop(_unpacked(arguments[0]))
            return
        slot, context, *given = arguments
        if kind == "whole_units":
            units.whole(slot, context, given[0])
        elif kind == "take_units":
            taken = units.take(slot, context, _unpacked(given[0]))
            assert taken == len(given[0]), f"{taken} of {len(given[0])} units are here"
        else:
            unit, (start, stop), digests, names, *ids = given
            seen = list(zip(names, ids, strict=True))
            units.hold(slot, context, unit, (start, stop), _unpacked(digests), seen)

    def _capture(
        self, op: str, batch: MirroredBatch, described: Sequence[Any], named: Mapping[str, Any]
    ) -> None:
        """Records a call that the leader records now, with what it gives it in the graph."""
        assert isinstance(self._engine, KVEngine) and self._engine.shard.group is not None
        group = self._engine.shard.group
        buffers = [_buffer(given, self.device) for given in described]

        def body() -> Any:
            arguments = [_broadcast(buffer, group) for buffer in buffers]
            return getattr(self._engine, op)(batch, *arguments, **named)

        self._graphs.capture(batch, body)

    def held(self) -> Any:
        """What requests hold here."""
        return self._engine.snapshot() if isinstance(self._engine, KVEngine) else 0
