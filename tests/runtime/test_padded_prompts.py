"""Prompts of several lengths, padded so that a graph serves them: nobody sees the padding."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from mstarc_runtime.attention.torch_reference import TorchAttention
from mstarc_runtime.engine.fake import FakeCapture, FakeGraphExecutor
from mstarc_runtime.engine.op_graphs import OpGraphs
from mstarc_runtime.engine.padded_prompts import MOST_ROWS, PaddedPrompts
from mstarc_runtime.launch import LocalRanks, run_until_done
from tests.support.tiny_plan import ranks_of, submit

CPU = torch.device("cpu")
PROMPTS = ["hm", "a longer prompt", "four", "three of a kind", "hm", "the last of them all"]


@pytest.mark.parametrize(
    ("counts", "bucket", "each"),
    [([3], 1, 16), ([17], 1, 32), ([130], 1, 192), ([5, 17, 9], 4, 32), ([300, 2], 2, 512)],
)
def test_prompts_are_padded_to_the_next_of_a_few_lengths(
    counts: list[int], bucket: int, each: int
) -> None:
    padded = PaddedPrompts.of(np.array(counts), CPU)
    assert padded is not None
    assert (padded.bucket, padded.each) == (bucket, each)
    rows = torch.arange(sum(counts)) + 1
    whole = padded.padded(rows).view(bucket, each)
    for request, count in enumerate(counts):
        assert whole[request, :count].tolist() == rows.split(counts)[request].tolist()
    assert whole.count_nonzero() == rows.numel()
    assert torch.equal(padded.cut(whole.flatten()), rows)
    assert padded.cut(torch.arange(bucket)).tolist() == list(range(len(counts)))


@pytest.mark.parametrize("counts", [[MOST_ROWS + 1], [MOST_ROWS // 4 + 1, 3], [512] * 5])
def test_long_ones_are_not(counts: list[int]) -> None:
    assert PaddedPrompts.of(np.array(counts), CPU) is None


def _said(ranks: LocalRanks, waves: list[list[str]]) -> list[NDArray[np.float32]]:
    said: list[NDArray[np.float32]] = []
    for wave in waves:
        got = [
            submit(ranks, ["speech"], {"prompt": text}, {"max_tokens": 36, "seed": number})
            for number, text in enumerate(wave)
        ]
        run_until_done(ranks)
        said += [_samples(listener.values["speech"]) for listener in got]
    return said


def _samples(pieces: list[bytes]) -> NDArray[np.float32]:
    return np.frombuffer(b"".join(pieces), dtype=np.float32)


def test_requests_say_what_they_say_without_padding(tmp_path: Path) -> None:
    """Alone and together, prompts one after another behind the first two of each shape."""
    waves = [PROMPTS[:1], PROMPTS[1:2], PROMPTS[:3], PROMPTS[3:6], PROMPTS[:3], PROMPTS[5:]]

    def made(name: str) -> LocalRanks:
        return ranks_of(
            "orpheus",
            tmp_path / name,
            executor=FakeGraphExecutor(),
            attention=lambda cache: TorchAttention(cache, row_by_row=False),
            deterministic=False,
            buckets=(1, 4),
        )

    wanted = _said(made("plain"), waves)
    captured: list[FakeCapture] = []
    ranks = made("padded")
    (worker,) = ranks.workers
    engine = worker.parts.kv["lm"]

    def capture(body: Callable[[], None]) -> FakeCapture:
        # The double of a graph runs what it notes, and a draw would count twice.
        (sampler,) = set(engine.samplers.values())
        slots = range(worker.plan.slots + 1)
        before = [sampler.state(slot) or (0, None) for slot in slots]
        captured.append(FakeCapture(body))
        for slot, (draws, seen) in zip(slots, before, strict=True):
            sampler.restore(slot, draws, seen)
        return captured[-1]

    engine.graphs = OpGraphs(capture)
    found = _said(ranks, waves)
    # The codes are the same; the codec's last bits depend on how many windows it has at once.
    for one, other in zip(found, wanted, strict=True):
        assert len(one) == len(other)
        np.testing.assert_allclose(one, other, atol=1e-5)
    # One prompt of up to 16 rows, one of up to 32, and two or up to four of up to 32.
    assert 3 <= len(captured) <= 5
