"""A device that does nothing, and models for it: what is left of a step is the host's work.

A captured region is "replayed" by leaving its output buffers as they are, with flags that say that
every row goes on.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.engine.builder import RankBuilder
from mstarc_runtime.engine.effects import Emitted
from mstarc_runtime.engine.flag_columns import COLUMNS
from mstarc_runtime.engine.pass_log import PassesRead, PassLog
from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.step import StepRows
from mstarc_runtime.plan_api import DeviceStep, Policy, Rank

CONTEXT_ROWS = 8192
PAGE_TOKENS = 16
NEVER = 20 * CONTEXT_ROWS


class NullModel(nn.Module):
    """Ops that return values of the right shapes and compute nothing."""

    vocab_size = 1

    @classmethod
    def build(cls, config: object, **_: object) -> "NullModel":
        return cls()

    def prefill(self, ctx: Any, ids: Tensor) -> Tensor:
        return ids[ctx.last_rows]

    def step(self, ctx: Any, token: Tensor) -> Tensor:
        return token.clone()

    def decode(self, ctx: Any, codes: Tensor) -> Tensor:
        return torch.zeros(codes.shape[0], 1)


class NullFrontend:
    """Prompts of several lengths: their pages fill at different steps."""

    def __init__(self) -> None:
        self._count = 0

    @classmethod
    def build(cls, config: object, **_: object) -> "NullFrontend":
        return cls()

    def encode(self, prompt: str, voice: str) -> Tensor:
        self._count += 1
        return torch.full((20 + self._count % 17,), 7, dtype=torch.int64)


class NullAttention:
    """Does what the GPU's attention does on the host: page tables, whenever pages have changed."""

    # So that the tables of a step are the host's own arrays: copies to a device are its work.
    row_by_row = True

    def __init__(self, cache: KVCache) -> None:
        pass

    def plan_step(self, rows: StepRows, mirror: object) -> "NullPlan":
        return NullPlan(rows)

    def plan_packed(self, rows: object, mirror: object, mask: object) -> "NullPlan":
        return NullPlan(None)


class NullPlan:
    def __init__(self, rows: StepRows | None) -> None:
        self._rows = rows
        self._version = -1
        # Where a copy to the device would be made from.
        self._pinned = None if rows is None else np.zeros_like(rows.page_table)
        # That of nobody: rows of a stretch move on on the device.
        self.pages = torch.zeros((1, 1), dtype=torch.int32)

    def update(self) -> None:
        rows, pinned = self._rows, self._pinned
        if rows is not None and pinned is not None and self._version != rows.pages_version:
            self._version = rows.pages_version
            columns = int(rows.page_counts.max())
            pinned[:, :columns] = rows.page_table[:, :columns]

    def attend(self, *_: object, **__: object) -> Tensor:
        raise AssertionError("no model here attends")


class NullExecutor:
    """Steps of a capture region run once, to note their effects; after that nothing runs."""

    def __init__(self) -> None:
        self.last_step = -1
        self.runs: dict[int, int] = {}
        self._recorded: dict[int, object] = {}
        self._patterns: dict[int, Any] = {}

    def run(self, rank: Rank, batch: StepBatch) -> None:
        self.last_step = batch.step.id
        self.runs[self.last_step] = self.runs.get(self.last_step, 0) + 1
        recorded = self._recorded.get(id(batch))
        if recorded is batch.slots:
            return
        if recorded is not None:
            self._recorded[id(batch)] = batch.slots
            pattern = self._patterns[id(batch)]
            batch.host_flags()[:] = pattern & batch.allowed.numpy()[: batch.size, None]
            return
        batch.begin()
        batch.step.run(rank, batch)
        batch.end()
        if self.captures(batch.step):
            self._recorded[id(batch)] = batch.slots
            row = batch.expected[: len(batch.expected) // batch.size]
            self._patterns[id(batch)] = np.frombuffer(row, dtype=np.bool_)

    def captures(self, step: DeviceStep) -> bool:
        return step.region is not None


class NullLog(PassLog):
    """Of passes in which every row goes on; what the device does with it is left out."""

    def begin(self, size: int) -> None:
        pass

    def go_on(self, contexts: object) -> None:
        pass

    def record(self, batch: StepBatch) -> None:
        pass

    def read_back(self, batch: StepBatch, passes: int) -> PassesRead:
        row = np.frombuffer(batch.expected[:COLUMNS], dtype=np.bool_)
        emitted = [effect.value for effect in batch.leaving if isinstance(effect, Emitted)]
        return PassesRead(
            leaving=list(batch.leaving),
            slot_list=batch.slot_list,
            flags=np.broadcast_to(row, (passes, batch.bucket, COLUMNS)),
            values={id(value): value.expand(passes, *value.shape) for value in emitted},
        )


class SmallBuilder(RankBuilder):
    """Caches of the plan's pages and contexts, with one element a row: nothing reads them."""

    def kv_cache(self, name: str, **declared: Any) -> Any:
        declared.update(layers=1, heads=1, head_dim=1, pages=64 * CONTEXT_ROWS // PAGE_TOKENS)
        return super().kv_cache(name, **declared)


class EndlessBuilder(SmallBuilder):
    """Streams whose first chunk is never complete, and that are never full."""

    def ring(self, name: str, **declared: Any) -> Any:
        declared.update(policy=Policy(kind="fixed", size=NEVER, tail="drop"), capacity=2 * NEVER)
        return super().ring(name, **declared)
