"""What a rank module declares through `build`: nodes, rings, storage and loops of one rank.

`RankBuilder` makes each thing when it is declared and keeps them by name; `RankParts` is what is
left when `build` is through. Weights are loaded here, so this is where start-up takes its time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from mstarc_runtime.engine.arrays import ContextArrays, context_names
from mstarc_runtime.engine.dtypes import torch_dtype
from mstarc_runtime.engine.host import HostEngine
from mstarc_runtime.engine.implementations import Implementations
from mstarc_runtime.engine.kv_cache import (
    GREEDY,
    BackendMaker,
    KVEngine,
    op_plans,
    reference_attention,
    sampler_states,
)
from mstarc_runtime.engine.options import OptionTable
from mstarc_runtime.engine.passes import LoopPasses, Table
from mstarc_runtime.engine.stateless import StatelessEngine
from mstarc_runtime.engine.storage import Collector, Register, Values
from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.layout import CacheLayout
from mstarc_runtime.plan_api import ContextArray, Loop, Policy, Sampler, Weights
from mstarc_runtime.streaming.counts import LazyCounts
from mstarc_runtime.streaming.outbox import Courier, Outbox
from mstarc_runtime.streaming.ring import Ring, StreamListener


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSettings:
    """Sizes and devices of a rank. `streams` gives each stream's ring capacity."""

    slots: int
    max_rows: int
    device: torch.device
    dtype: torch.dtype
    captured: bool
    streams: Mapping[str, int]


@dataclass(slots=True, kw_only=True)
class RankParts:
    """Everything that a rank holds, by name."""

    options: OptionTable
    kv: dict[str, KVEngine] = field(default_factory=dict)
    stateless: dict[str, StatelessEngine] = field(default_factory=dict)
    host: dict[str, HostEngine] = field(default_factory=dict)
    rings: dict[str, Ring] = field(default_factory=dict)
    outboxes: dict[str, Outbox] = field(default_factory=dict)
    registers: dict[str, Register] = field(default_factory=dict)
    values: dict[str, Values] = field(default_factory=dict)
    collectors: dict[str, Collector] = field(default_factory=dict)
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
        attention: BackendMaker = reference_attention,
    ) -> None:
        self.parts = RankParts(options=OptionTable(slots=settings.slots, device=settings.device))
        self._settings = settings
        self._implementations = implementations
        self._listener = listener
        self._courier = courier
        self._attention = attention

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
        pages: int,
        page_tokens: int,
    ) -> KVEngine:
        settings = self._settings
        samplers = samplers or (GREEDY,)
        module = self._module(name, impl, weights)
        layout = CacheLayout(
            layers=layers,
            kv_heads=heads,
            head_dim=head_dim,
            pages=pages,
            page_size=page_tokens,
            slots=settings.slots,
            max_rows=min(settings.max_rows, pages * page_tokens),
            contexts=context_names(contexts, arrays),
            cross=cross,
        )
        cache = KVCache(layout, dtype=settings.dtype, device=settings.device)
        vocab: int = getattr(module, "vocab_size", 0) or getattr(module, "vocabulary", 1)
        engine = KVEngine(
            name=name,
            module=module,
            cache=cache,
            backend=self._attention(cache),
            samplers=sampler_states(
                samplers,
                slots=settings.slots,
                vocab=vocab,
                device=settings.device,
                captured=settings.captured,
            ),
            settings=samplers,
            ops=op_plans(masks, writes, reads, samplers, op_sampler),
            arrays=ContextArrays(arrays, cache),
        )
        self.parts.kv[name] = engine
        return engine

    def stateless(self, name: str, *, impl: str, weights: Weights) -> StatelessEngine:
        engine = StatelessEngine(name, self._module(name, impl, weights))
        self.parts.stateless[name] = engine
        return engine

    def host(self, name: str, *, impl: str, weights: Weights) -> HostEngine:
        engine = HostEngine(name, self._implementations.host(name, impl, weights))
        self.parts.host[name] = engine
        return engine

    def ring(
        self, name: str, *, dtype: str, item: tuple[int, ...], policy: Policy, capacity: int
    ) -> Ring:
        made = Ring(
            name,
            dtype=dtype,
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
        made = Register(name, dtype, dims, slots=self._settings.slots, device=self._settings.device)
        self.parts.registers[name] = made
        return made

    def values(self, name: str) -> Values:
        made = Values(name, slots=self._settings.slots, device=self._settings.device)
        self.parts.values[name] = made
        return made

    def collector(
        self, name: str, dtype: str, dims: tuple[int, ...], *, capacity: int
    ) -> Collector:
        made = Collector(
            name,
            dtype,
            dims,
            capacity=capacity,
            slots=self._settings.slots,
            device=self._settings.device,
        )
        self.parts.collectors[name] = made
        return made

    def constant(self, name: str, dtype: str, value: tuple[int | float, ...]) -> Tensor:
        return torch.tensor(value, dtype=torch_dtype(dtype), device=self._settings.device)

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

    def _module(self, name: str, impl: str, weights: Weights) -> torch.nn.Module:
        return self._implementations.module(
            name,
            impl,
            weights,
            dtype=self._settings.dtype,
            device=self._settings.device,
        )


class TorchOps:
    """The shape functions of walks, in torch."""

    def isin(self, value: Tensor, items: Tensor) -> Tensor:
        return (value.unsqueeze(-1) == items).any(-1)

    def stack(self, *values: Tensor) -> Tensor:
        return torch.stack(values, dim=1)

    def concat(self, *values: Tensor) -> Tensor:
        return torch.cat([value if value.dim() > 1 else value[:, None] for value in values], dim=1)

    def repeat(self, value: Tensor, times: int) -> Tensor:
        return value.unsqueeze(1).expand(-1, times, *value.shape[1:])
