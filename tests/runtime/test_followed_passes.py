"""What one rank does of passes that another has told it of, without the other: where rows stand.

On a GPU the graphs wait behind work of the device while the host makes the next passes ready.
"""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from mstarc_runtime.attention.makers import BackendMaker
from mstarc_runtime.attention.torch_reference import TorchAttention
from mstarc_runtime.engine.context import StepContext
from mstarc_runtime.engine.following_graphs import FollowingGraphs, FollowingQueue
from mstarc_runtime.engine.mirroring import MirroredBatch, MirroredStep
from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.layout import CacheLayout

LAYOUT = CacheLayout(
    layers=1, kv_heads=1, head_dim=128, pages=64, page_size=4, slots=4, max_rows=64
)
# As many as two stretches that are under way, and the one behind them.
STRETCHES, PASSES, BUCKET = 3, 5, 4


def plain(cache: KVCache) -> TorchAttention:
    return TorchAttention(cache, row_by_row=False)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    with torch.no_grad():
        yield torch.device(request.param)


def attention(device: torch.device) -> BackendMaker:
    if device.type == "cpu":
        return plain
    from mstarc_runtime.attention.paged_decode import PagedDecodeAttention

    return lambda cache: PagedDecodeAttention(cache, plain(cache))


def test_rows_of_followed_passes_stand_where_the_tables_say(device: torch.device) -> None:
    cache = KVCache(LAYOUT, dtype=torch.bfloat16, device=device)
    context = StepContext(cache=cache, backend=attention(device)(cache), samplers={}, bucket=BUCKET)
    slots = np.array([2, 0, 1])
    batch = MirroredBatch(
        step=MirroredStep(name="talk.pass", rows="one"),
        bucket=BUCKET,
        slots=slots,
        slot_list=slots.tolist(),
        device=device,
        old=0,
    )
    batch.step_contexts[("lm", "main", 0)] = context
    seen = torch.full((STRETCHES * PASSES, 2, BUCKET), -1, device=device)
    at = torch.zeros(1, dtype=torch.int64, device=device)
    moving = context.moving
    assert moving is not None

    def body() -> None:
        rows = torch.stack([moving.positions, moving.write_rows])
        seen.index_copy_(0, at, rows[None])
        at.add_(1)

    graphs = FollowingGraphs(FollowingQueue(device), device)
    with graphs.queue():
        context.prepare(slots)
        body()
        graphs.capture(batch, body)
        graphs.capture_end(batch)
        for slot in slots.tolist():
            cache.release_slot(slot)
        at.zero_()
        if device.type == "cuda":
            torch.cuda.synchronize()
            torch.cuda._sleep(200_000_000)
        for _ in range(STRETCHES):
            context.prepare(slots, PASSES)
            graphs.replay(batch, 0, 1, PASSES)
        if device.type == "cuda":
            torch.cuda.synchronize()
    count, size = STRETCHES * PASSES, LAYOUT.page_size
    assert cache.tables.lengths[slots].tolist() == [count] * 3
    number = np.arange(count)
    pages = cache.tables.table[slots[None], number[:, None] // size].astype(np.int64)
    found = seen.cpu().numpy()
    assert (found[:, 0, :3] == number[:, None]).all()
    assert (found[:, 1, :3] == pages * size + number[:, None] % size).all()
    # Padding stays on the page of nobody.
    assert (found[:, 1, 3] // size == LAYOUT.dummy_page).all() and not found[:, 0, 3].any()
