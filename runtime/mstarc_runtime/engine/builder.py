"""What a rank module declares through `build`: nodes, rings, storage and loops of one rank.

`RankBuilder` makes each thing when it is declared and keeps them by name; `RankParts` is what is
left when `build` is through. Weights are loaded here, so this is where start-up takes its time.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from mstarc_runtime.attention.makers import BackendMaker, reference_attention
from mstarc_runtime.engine.arrays import ContextArrays, context_names
from mstarc_runtime.engine.dtypes import dtype_name, torch_dtype
from mstarc_runtime.engine.following_graphs import FollowingGraphs, FollowingQueue
from mstarc_runtime.engine.host import HostEngine
from mstarc_runtime.engine.implementations import Implementations
from mstarc_runtime.engine.kv_cache import KVEngine
from mstarc_runtime.engine.mirroring import (
    Followers,
    FollowingEngine,
    LeadingKVEngine,
    LeadingStatelessEngine,
)
from mstarc_runtime.engine.op_graphs import CudaCapture, OpGraphs
from mstarc_runtime.engine.op_plans import GREEDY, kept_rows, op_plans, sampler_states
from mstarc_runtime.engine.op_results import OpResults, results_of
from mstarc_runtime.engine.options import OptionTable
from mstarc_runtime.engine.passes import LoopPasses, Table
from mstarc_runtime.engine.stateless import StatelessEngine
from mstarc_runtime.engine.storage import Collector, Register, RowList, Values
from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.layout import CacheLayout
from mstarc_runtime.kvcache.levels import chunk_of
from mstarc_runtime.layers.shard import Shard
from mstarc_runtime.plan_api import ContextArray, Loop, Policy, Sampler, Signature, Weights
from mstarc_runtime.run_choices import Cascade
from mstarc_runtime.streaming.counts import LazyCounts
from mstarc_runtime.streaming.outbox import Courier, Outbox
from mstarc_runtime.streaming.ring import Ring
from mstarc_runtime.streaming.standing import StreamListener


class Grouping(Protocol):
    """How a rank holds parts of nodes (`grouping`)."""

    rank: int

    def shard(self, ranks: Sequence[int], tp: int, sp: int) -> Shard: ...

    def lead(self, node: str, ranks: Sequence[int]) -> Followers: ...

    def serve(self, node: str, ranks: Sequence[int], engine: Any) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSettings:
    """Sizes and devices of a rank. `streams` gives each stream's ring capacity."""

    slots: int
    max_rows: int
    device: torch.device
    dtype: torch.dtype
    captured: bool
    streams: Mapping[str, int]
    cascade: Cascade = "off"
    # Nodes whose requests may hold rows of prompts in the same pages.
    sharing: Set[str] = frozenset()


@dataclass(slots=True, kw_only=True)
class RankParts:
    """Everything that a rank holds, by name."""

    options: OptionTable
    computed: torch.dtype = torch.bfloat16
    kv: dict[str, KVEngine] = field(default_factory=dict)
    stateless: dict[str, StatelessEngine] = field(default_factory=dict)
    host: dict[str, HostEngine] = field(default_factory=dict)
    rings: dict[str, Ring] = field(default_factory=dict)
    outboxes: dict[str, Outbox] = field(default_factory=dict)
    registers: dict[str, Register] = field(default_factory=dict)
    values: dict[str, Values] = field(default_factory=dict)
    collectors: dict[str, Collector | RowList] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    loops: dict[str, Loop] = field(default_factory=dict)
    passes: dict[str, LoopPasses] = field(default_factory=dict)
    passes_left: dict[str, LazyCounts] = field(default_factory=dict)


class RankBuilder:
    """Makes the parts of a rank."""

    def __init__(
        self,
        settings: RankSettings,
        implementations: Implementations,
        *,
        listener: StreamListener,
        courier: Courier,
        groups: Grouping,
        attention: BackendMaker = reference_attention,
    ) -> None:
        self.parts = RankParts(
            options=OptionTable(slots=settings.slots, device=settings.device),
            computed=settings.dtype,
        )
        self._settings = settings
        self._implementations = implementations
        self._listener = listener
        self._courier = courier
        self._groups = groups
        self._attention = attention
        self._capture = CudaCapture()
        # By group: what two leaders tell may come to each of those that follow in another order.
        self._following: dict[tuple[int, ...], FollowingQueue] = {}

    def kv_cache(
        self,
        name: str,
        *,
        impl: str,
        weights: Weights,
        layers: int,
        heads: int,
        head_dim: int,
        contexts: tuple[str, ...],
        arrays: Mapping[str, ContextArray] = {},
        cross: Mapping[str, int],
        masks: Mapping[str, str],
        writes: Mapping[str, str],
        reads: Mapping[str, str] = {},
        samplers: tuple[Sampler, ...],
        op_sampler: Mapping[str, str],
        signatures: Mapping[str, Signature] = {},
        pages: int,
        page_tokens: int,
        group: tuple[int, ...] = (),
        tp: int = 1,
        sp: int = 1,
    ) -> KVEngine | FollowingEngine:
        settings = self._settings
        samplers = samplers or (GREEDY,)
        shard = self._groups.shard(group, tp, sp)
        module = self._module(name, impl, weights, shard)
        held = shard.kv_heads(heads)
        most_rows = min(settings.max_rows, pages * page_tokens)
        layout = CacheLayout(
            layers=layers,
            kv_heads=held[1] - held[0],
            head_dim=head_dim,
            pages=pages,
            page_size=page_tokens,
            slots=settings.slots,
            max_rows=most_rows,
            contexts=context_names(contexts, arrays),
            cross=cross,
            shared_chunk=self._shared_chunk(name, most_rows, page_tokens),
        )
        cache = KVCache(layout, dtype=settings.dtype, device=settings.device)
        vocab: int = getattr(module, "vocab_size", 0) or getattr(module, "vocabulary", 1)
        kept = kept_rows(module, samplers, vocab)
        make: Callable[..., KVEngine] = KVEngine
        if self._leads(group):
            followers = self._groups.lead(name, group)
            # Arguments go to those that hold other heads of the same rows.
            followers.can_record = sp == 1
            make = partial(LeadingKVEngine, followers=followers)
        engine = make(
            name=name,
            module=module,
            cache=cache,
            backend=self._attention(cache),
            shard=shard,
            kv_heads=heads,
            samplers=sampler_states(
                name,
                samplers,
                slots=settings.slots,
                vocab=vocab,
                kept=kept,
                device=settings.device,
                captured=settings.captured,
            ),
            settings=samplers,
            ops=op_plans(masks, writes, reads, samplers, op_sampler),
            arrays=ContextArrays(arrays, cache),
            graphs=self._graphs(group),
            results=self._results(name, signatures, group, packs=True),
        )
        if self._serves(group):
            return self._serve(name, group, engine)
        self.parts.kv[name] = engine
        return engine

    def stateless(
        self,
        name: str,
        *,
        impl: str,
        weights: Weights,
        signatures: Mapping[str, Signature] = {},
        group: tuple[int, ...] = (),
        tp: int = 1,
        sp: int = 1,
    ) -> StatelessEngine | FollowingEngine:
        module = self._module(name, impl, weights, self._groups.shard(group, tp, sp))
        if self._serves(group):
            return self._serve(name, group, StatelessEngine(name, module))
        results = self._results(name, signatures, group, packs=False)
        engine = StatelessEngine(name, module, self._graphs(group), results)
        if self._leads(group):
            engine = LeadingStatelessEngine(name, module, self._groups.lead(name, group), results)
        self.parts.stateless[name] = engine
        return engine

    def _results(
        self, name: str, signatures: Mapping[str, Signature], group: tuple[int, ...], *, packs: bool
    ) -> dict[str, OpResults]:
        """Where a node is divided, what its leader gets is looked at."""
        if self._serves(group):
            return {}
        return results_of(name, signatures, computed=self._settings.dtype, packs=packs)

    def _shared_chunk(self, name: str, most_rows: int, page_tokens: int) -> int:
        """Rows of a chunk of prompts that steps attend together."""
        if name not in self._settings.sharing:
            return 0
        return chunk_of(most_rows, page_tokens, self._settings.cascade)

    def _graphs(self, group: tuple[int, ...]) -> OpGraphs | None:
        """Graphs of a node's calls, where regions are captured too. Parts of a node have none: they
        must be told of every call."""
        is_used = self._settings.captured and self._settings.device.type == "cuda"
        return OpGraphs(self._capture) if is_used and len(group) < 2 else None

    def _leads(self, group: tuple[int, ...]) -> bool:
        return len(group) > 1 and group[0] == self._groups.rank

    def _serves(self, group: tuple[int, ...]) -> bool:
        return len(group) > 1 and group[0] != self._groups.rank

    def _serve(
        self, name: str, group: tuple[int, ...], engine: KVEngine | StatelessEngine
    ) -> FollowingEngine:
        device = self._settings.device
        queue = self._following.get(group)
        if queue is None:
            queue = self._following[group] = FollowingQueue(device)
        made = FollowingEngine(engine, device, FollowingGraphs(queue, device))
        self._groups.serve(name, group, made)
        return made

    def host(self, name: str, *, impl: str, weights: Weights) -> HostEngine:
        engine = HostEngine(name, self._implementations.host(name, impl, weights))
        self.parts.host[name] = engine
        return engine

    def ring(
        self, name: str, *, dtype: str, item: tuple[int, ...], policy: Policy, capacity: int
    ) -> Ring:
        made = Ring(
            name,
            dtype=self._kept(dtype),
            item=item,
            policy=policy,
            capacity=capacity,
            slots=self._settings.slots,
            device=self._settings.device,
            listener=self._listener,
        )
        self.parts.rings[name] = made
        return made

    def outbox(self, name: str, *, dtype: str, item: tuple[int, ...], rank: int) -> Outbox:
        made = Outbox(
            name,
            item=item,
            rank=rank,
            capacity=self._settings.streams[name],
            slots=self._settings.slots,
            courier=self._courier,
        )
        self.parts.outboxes[name] = made
        return made

    def register(self, name: str, dtype: str, dims: tuple[int, ...]) -> Register:
        settings = self._settings
        made = Register(name, self._kept(dtype), dims, slots=settings.slots, device=settings.device)
        self.parts.registers[name] = made
        return made

    def values(self, name: str) -> Values:
        made = Values(name, slots=self._settings.slots, device=self._settings.device)
        self.parts.values[name] = made
        return made

    def collector(
        self, name: str, dtype: str, dims: tuple[int, ...] | None, *, capacity: int | None
    ) -> Collector | RowList:
        if dims is None:
            rows = RowList(name, capacity=capacity, slots=self._settings.slots)
            self.parts.collectors[name] = rows
            return rows
        assert capacity is not None, f"{name} has rows of one size, and no most"
        made = Collector(
            name,
            self._kept(dtype),
            dims,
            capacity=capacity,
            slots=self._settings.slots,
            device=self._settings.device,
        )
        self.parts.collectors[name] = made
        return made

    def constant(self, name: str, dtype: str, value: tuple[int | float, ...]) -> Tensor:
        return torch.tensor(
            value, dtype=torch_dtype(self._kept(dtype)), device=self._settings.device
        )

    def table(self, name: str, dtype: str, *, capacity: int) -> Table:
        made = Table(
            name,
            dtype,
            capacity=capacity,
            slots=self._settings.slots,
            device=self._settings.device,
        )
        self.parts.tables[name] = made
        return made

    def loop(self, loop: Loop) -> LoopPasses:
        left = LazyCounts(self._settings.slots)
        made = LoopPasses(loop.name, loop.bound, left=left, slots=self._settings.slots)
        self.parts.loops[loop.name] = loop
        self.parts.passes_left[loop.name] = left
        self.parts.passes[loop.name] = made
        return made

    def _kept(self, dtype: str) -> str:
        """The type that values of `dtype` have on this rank."""
        return dtype_name(torch_dtype(dtype, self._settings.dtype))

    def _module(self, name: str, impl: str, weights: Weights, shard: Shard) -> torch.nn.Module:
        return self._implementations.module(
            name,
            impl,
            weights,
            dtype=self._settings.dtype,
            device=self._settings.device,
            shard=shard,
        )


class TorchOps:
    """The shape functions of walks, in torch."""

    def isin(self, value: Tensor, items: Tensor) -> Tensor:
        return (value.unsqueeze(-1) == items).any(-1)

    def stack(self, *values: Tensor) -> Tensor:
        return torch.stack(values, dim=1)

    def concat(self, *values: Tensor) -> Tensor:
        rank = max(2, *(value.dim() for value in values))
        return torch.cat([v if v.dim() == rank else v.unsqueeze(1) for v in values], dim=1)

    def repeat(self, value: Tensor, times: int) -> Tensor:
        return value.unsqueeze(1).expand(-1, times, *value.shape[1:])

    def pick(self, value: Tensor, axis: int, index: Tensor) -> Tensor:
        at = torch.where(index < 0, index + value.shape[axis], index)
        return self._gathered(value, axis, at[:, None]).squeeze(axis)

    def window(self, value: Tensor, axis: int, start: Tensor, length: int) -> Tensor:
        at = torch.where(start < 0, start + value.shape[axis], start)
        return self._gathered(value, axis, at[:, None] + torch.arange(length, device=value.device))

    def _gathered(self, value: Tensor, axis: int, index: Tensor) -> Tensor:
        """Entries along an axis at `index` [B, k]."""
        shape = [1] * value.dim()
        shape[0], shape[axis] = index.shape
        sizes = list(value.shape)
        sizes[axis] = index.shape[1]
        return value.gather(axis, index.view(shape).expand(sizes))
