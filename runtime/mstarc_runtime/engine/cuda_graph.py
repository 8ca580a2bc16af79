"""Runs capture regions as CUDA graphs: one graph a step and bucket, captured when first wanted.

The first run of a batch is eager: it is a real run, and it lets libraries make what they make once.
The second is captured and replayed. From then on a run is one launch: the batch's effects are those
noted while capturing, over tensors that keep their addresses; `bind` and `prepare` have written the
slots, page lists and masks into them before.

All graphs share one memory pool, since they never run at the same time on one stream.
"""

from dataclasses import dataclass, field

import torch

from mstarc_runtime.engine.batch import StepBatch
from mstarc_runtime.plan_api import DeviceStep, Rank


@dataclass(slots=True)
class GraphCounts:
    """How steps of capture regions have run. Eager runs are counted by step name."""

    captured: int = 0
    replayed: int = 0
    eager: dict[str, int] = field(default_factory=dict)


class CudaGraphExecutor:
    """Captures the steps that the plan put into regions; every other step runs as written."""

    def __init__(self, device: torch.device) -> None:
        assert device.type == "cuda", "CUDA graphs need a CUDA device"
        self.counts = GraphCounts()
        self._device = device
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        # Batches are kept: a graph writes into its batch's tensors, and ids must not be used again.
        self._warm: dict[int, StepBatch] = {}
        self._stream = torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()

    def captures(self, step: DeviceStep) -> bool:
        return step.region is not None and step.rows != "packed"

    def run(self, rank: Rank, batch: StepBatch) -> None:
        graph = self._graphs.get(id(batch))
        if graph is not None:
            self.counts.replayed += 1
            graph.replay()
            return
        if self.captures(batch.step) and id(batch) in self._warm:
            self._capture(rank, batch).replay()
            self.counts.replayed += 1
            return
        self._warm[id(batch)] = batch
        name = batch.step.name
        self.counts.eager[name] = self.counts.eager.get(name, 0) + 1
        batch.begin()
        batch.step.run(rank, batch)
        batch.end()

    def _capture(self, rank: Rank, batch: StepBatch) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        batch.begin()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
            batch.step.run(rank, batch)
        batch.end()
        self._graphs[id(batch)] = graph
        self.counts.captured += 1
        return graph
