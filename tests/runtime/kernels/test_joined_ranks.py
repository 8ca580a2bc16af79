"""Ranks that are processes join rows again and again, each at its own pace: every sum is right.

Between two GPUs, in graphs; without them the kernels are interpreted, over memory that processes
share.
"""

import multiprocessing
import random
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from mstarc_runtime.transport.inboxes import CHANNELS, Inboxes, inbox_words

pytestmark = pytest.mark.gpu

RANKS = 2
WIDTH = 600


def test_ranks_keep_pace(tmp_path: Path) -> None:
    if torch.cuda.is_available() and torch.cuda.device_count() < RANKS:
        pytest.skip("one CUDA device")
    memory: list[Tensor] = []
    if not torch.cuda.is_available():
        words = inbox_words(RANKS)
        memory = [torch.zeros(words, dtype=torch.int64).share_memory_() for _ in range(RANKS)]
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    ranks = [
        context.Process(target=keep_pace, args=(index, tmp_path, memory, results))
        for index in range(RANKS)
    ]
    for rank in ranks:
        rank.start()
    try:
        made = dict(results.get(timeout=120) for _ in ranks)
    finally:
        for rank in ranks:
            rank.kill()
    assert made == dict.fromkeys(range(RANKS), "right")


def keep_pace(index: int, folder: Path, memory: list[Tensor], results: Any) -> None:
    """One rank: says whether all sums were right."""
    if memory:
        inboxes = Inboxes(
            addresses=tuple(inbox.data_ptr() for inbox in memory),
            epochs=torch.zeros(CHANNELS, dtype=torch.int32),
            index=index,
            count=RANKS,
        )
        results.put((index, joined(inboxes, index, 8, torch.device("cpu"))))
        return
    from mstarc_runtime.transport.collectives import ProcessGroup

    device = torch.device("cuda", index)
    said: list[str] = []
    group = ProcessGroup(folder, "0-1", index=index, count=RANKS, device=device, say=said.append)
    found = group.inboxes(WIDTH)
    assert found is not None, said
    assert "device to device" in said[0]
    results.put((index, joined(found, index, 500, device)))
    # Not before the other one has read all.
    time.sleep(1.0)


def joined(inboxes: Inboxes, index: int, rounds: int, device: torch.device) -> str:
    from mstarc_runtime.kernels.joined_rows import join_rows, pieces

    pace = random.Random(index)
    number = torch.zeros(1, device=device)
    part, residual, wanted = (torch.zeros(1, WIDTH, device=device) for _ in range(3))
    h = torch.empty(1, WIDTH, device=device).bfloat16()
    squares = torch.empty(pieces(WIDTH), 1, device=device)
    gain = torch.ones(WIDTH, device=device).bfloat16()
    own = torch.arange(WIDTH, device=device)[None] % 97 + 1.0

    def body() -> None:
        for call in range(3):
            # Another number in each call of each round, and whole, so that sums are exact.
            number.add_(1.0)
            part.copy_(own * (number % 61) + 1000.0 * index + call)
            join_rows(
                part, inboxes, residual=residual, gain=gain, h=h, squares=squares,
                chained=device.type == "cuda",
            )  # fmt: skip
            wanted.add_(2.0 * own * (number % 61) + 1000.0 + 2.0 * call)
            residual.remainder_(4096.0)
            wanted.remainder_(4096.0)

    run = body
    if device.type == "cuda":
        body()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            body()
        run = graph.replay
    for _ in range(rounds):
        if device.type == "cuda" and pace.random() < 0.2:
            torch.cuda._sleep(pace.randrange(100_000))
        if device.type == "cpu" and pace.random() < 0.5:
            time.sleep(pace.random() / 50)
        run()
        if not torch.equal(residual, wanted):
            return f"wrong behind {number.item():.0f} joins"
    return "right"
