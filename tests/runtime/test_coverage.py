"""What runs as a graph and what does not: no batch runs call by call without being counted.

Orpheus in tiny, for at most 16 requests, with fake captures. Its regions are R0, a pass of the
decoder's loop, and R1, the codec's window.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from mstarc_runtime.assembly import Extras, RunSettings
from mstarc_runtime.engine.coverage import sizes_of, uncovered
from mstarc_runtime.engine.fake import FakeCapture, FakeGraphExecutor
from mstarc_runtime.engine.host import InlinePool
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.how_it_ran import bucket_notes, coverage_lines, eager_fallbacks
from mstarc_runtime.launch import LocalRanks, ask_ranks, run_until_done
from mstarc_runtime.loader import load_placement, load_plan
from mstarc_runtime.messages import Tally
from mstarc_runtime.models.orpheus import SnacDecoder
from mstarc_runtime.plan_api import DeviceStep
from mstarc_runtime.request import Asked, prepare
from mstarc_runtime.weights.progress import PlainProgress
from tests.runtime.plan_folder import write_plan
from tests.runtime.rig import Collected, nowhere

DECODE, VOCODE = "speak.decode.pass", "vocoder.listen.vocode"
MOST_REQUESTS = 16


@pytest.fixture(scope="module")
def plan_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_plan("orpheus", tmp_path_factory.mktemp("plan"))


def ranks_of(
    folder: Path, *, codec: Any = None, captures: bool = True, **settings: Any
) -> LocalRanks:
    plan = load_plan(folder)
    settings = {"deterministic": False, "buckets": (1, 2, 4), **settings}
    return LocalRanks(
        plan,
        load_placement(plan, "cpu"),
        settings=RunSettings(cache_dir=Path("/nonexistent"), threads=1, **settings),
        progress=PlainProgress(nowhere()),
        make_pool=lambda wake: InlinePool(),
        extras=Extras(
            executor=FakeGraphExecutor() if captures else None,
            implementations={"orpheus:SnacDecoder": codec} if codec else {},
        ),
    )


def run(ranks: LocalRanks, folder: Path, count: int) -> list[Tally]:
    """What ranks have run once so many requests are over."""
    plan = load_plan(folder)
    listeners = []
    for number in range(count):
        asked = Asked(inputs={"prompt": "hello"}, options={"max_tokens": 36})
        listeners.append(Collected())
        ranks.conductor.submit(prepare(plan, asked, seed=number), listeners[-1])
    run_until_done(ranks)
    assert all(listener.events[-1] == "finished" for listener in listeners)
    return [tally for told, _ in ask_ranks(ranks) for tally in told.tallies]


# Bodies that no graph can hold


class ReadsAValue(SnacDecoder):
    def decode(self, ctx: Any, codes: Tensor) -> Tensor:
        scale = 1 if codes.sum().item() else 2  # here
        return super().decode(ctx, codes) * scale


class SlicesToAValue(SnacDecoder):
    def decode(self, ctx: Any, codes: Tensor) -> Tensor:
        codes = codes[: codes.amax() + 100]  # here
        return super().decode(ctx, codes)


class MakesATensorOfAList(SnacDecoder):
    def decode(self, ctx: Any, codes: Tensor) -> Tensor:
        for row in range(2):
            codes = codes + torch.tensor([row])  # here
        return super().decode(ctx, codes)


class DecidesOnTheHost(SnacDecoder):
    def decode(self, ctx: Any, codes: Tensor) -> Tensor:
        pcm = super().decode(ctx, codes)
        return pcm if codes.sum() > 0 else pcm * 2  # here


@pytest.mark.parametrize(
    ("codec", "reason"),
    [
        (ReadsAValue, ".item() reads a value on the host"),
        (SlicesToAValue, "reads a value on the host"),
        (MakesATensorOfAList, "torch.tensor() copies from the host"),
        (DecidesOnTheHost, "bool(tensor) reads a value on the host"),
    ],
)
def test_a_body_that_no_graph_can_hold_is_refused_with_its_line_and_the_reason(
    plan_folder: Path, codec: Any, reason: str
) -> None:
    with pytest.raises(RuntimeFailure) as caught:
        ranks_of(plan_folder, codec=codec)
    failure = caught.value
    assert failure.code == "MS9016"
    assert reason in failure.message
    assert "region `R1`" in failure.message
    assert f"in {__file__}:" in failure.notes[0]
    assert "# here" in failure.notes[0]
    assert "specs/orpheus.mstar:" in failure.notes[1]
    assert "--eager R1" in failure.helps[0]


def test_such_a_body_runs_call_by_call_if_that_is_asked_for_and_is_counted(
    plan_folder: Path,
) -> None:
    tallies = run(ranks_of(plan_folder, codec=ReadsAValue, eager=("R1",)), plan_folder, 1)
    (found,) = [entry for entry in eager_fallbacks(tallies) if entry["walk"] == VOCODE]
    assert (found["nodes"], found["bs"]) == (["codec"], 1)
    assert found["reason"] == "`--eager` asks for it"
    assert found["runs"] == 2  # 36 codes are two windows of 28 that move on by 7
    said = list(coverage_lines(tallies))
    assert any(VOCODE in line and "at batch 1: 2 times" in line for line in said)


def test_a_number_of_python_is_the_one_of_the_capture() -> None:
    """A temperature that is a Python number would be the first request's for ever."""
    logits = torch.arange(4.0)
    request = {"temperature": 0.6}
    graph = FakeCapture(lambda: logits.div_(request["temperature"]), check=True)
    graph.replay()
    request["temperature"] = 0.9
    with pytest.raises(Exception, match=r"captured as .*0\.6.* and would now be .*0\.9"):
        graph.replay()


def test_graphs_that_share_memory_replay_as_their_bodies_would_run() -> None:
    def both(
        run_one: Any, run_other: Any, state: Tensor, order: Sequence[int]
    ) -> list[list[float]]:
        seen = []
        for which in order:
            (run_one, run_other)[which]()
            seen.append(state.tolist())
        return seen

    order = (0, 1, 1, 0, 1, 0, 0)
    made = []
    for captured in (False, True):
        state, pool = torch.zeros(2), torch.zeros(2)

        def one(state: Tensor = state, pool: Tensor = pool) -> None:
            pool.copy_(state + 1)
            state.add_(pool)

        def other(state: Tensor = state, pool: Tensor = pool) -> None:
            pool.copy_(state * 2)
            state.copy_(pool - 1)

        bodies: list[Any] = [one, other]
        if captured:
            graphs = [FakeCapture(body) for body in bodies]
            state.zero_()  # as before anybody ran
            bodies = [graph.replay for graph in graphs]
        made.append(both(*bodies, state, order))
    assert made[0] == made[1]


# Every size that the scheduler can make


def brute_force(buckets: Sequence[int], count: int) -> int:
    """The padded size of `count` requests, from the words of the rule."""
    sizes = [size for size in range(1, MOST_REQUESTS + 1) if size in buckets]
    return next(size for size in sizes if size >= count)


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ((8, 1, 4), (1, 4, 8)),
        ((4, 4, 1, 1), (1, 4)),
        ((2, 64), (2, 16)),
        ((64, 128), (16,)),
        ((3,), (3,)),
    ],
    ids=["unsorted", "twice", "larger-than-any-batch", "only-larger", "one"],
)
def test_sizes_that_are_asked_for_are_put_in_order_and_cover_every_batch(
    plan_folder: Path, asked: tuple[int, ...], kept: tuple[int, ...]
) -> None:
    worker = ranks_of(plan_folder, buckets=asked).workers[0]
    steps = [s for s in worker.plan.steps if isinstance(s, DeviceStep) and s.region is not None]
    assert {step.buckets for step in steps} == {kept}
    for step in steps:
        sizes = dict(sizes_of(worker, step))
        # Larger batches than the largest size are several: the scheduler makes none of them.
        assert sizes == {n: brute_force(kept, n) for n in range(1, max(kept) + 1)}
        assert {(step.id, size) for size in sizes.values()} <= worker.coverage.captured
    assert uncovered(worker) == []


def test_what_is_not_as_it_was_asked_for_is_said() -> None:
    assert list(bucket_notes((), 16)) == []
    assert list(bucket_notes((1, 4, 16), 16)) == []
    assert list(bucket_notes((8, 1, 8, 64), 16)) == [
        "note: a size stands twice in `--buckets`; it is captured once",
        "note: no batch of 64: at most 16 requests run at once",
    ]
    assert list(bucket_notes((1, 8), 16)) == [
        "note: batches of 9 to 16 run as several of at most 8"
    ]


def test_more_requests_than_the_largest_size_run_as_graphs_all_the_same(plan_folder: Path) -> None:
    tallies = run(ranks_of(plan_folder, buckets=(1, 2)), plan_folder, 5)
    decodes = [tally for tally in tallies if tally.step == DECODE]
    assert {(tally.bucket, tally.reason) for tally in decodes} <= {(1, ""), (2, "")}
    assert sum(tally.requests for tally in decodes) == 5 * 36
    assert {entry["walk"] for entry in eager_fallbacks(tallies)} == {"speak.begin.start"}


def test_a_step_outside_regions_is_counted_with_the_reason(plan_folder: Path) -> None:
    (found,) = eager_fallbacks(run(ranks_of(plan_folder), plan_folder, 1))
    assert found == {
        "nodes": ["lm"],
        "walk": "speak.begin.start",
        "bs": 1,
        "reason": "in no capture region: the plan's report says why",
        "runs": 1,
    }


# --require-graphs


def test_graphs_can_be_required(plan_folder: Path) -> None:
    ranks_of(plan_folder, require_graphs=True)


def test_a_device_that_captures_nothing_does_not_start_where_graphs_are_required(
    plan_folder: Path,
) -> None:
    with pytest.raises(RuntimeFailure) as caught:
        ranks_of(plan_folder, captures=False, require_graphs=True, buckets=(1, 4))
    failure = caught.value
    assert failure.code == "MS9013"
    assert failure.notes == (
        f"`{DECODE}`, batch 1–4: eager: nothing is captured on a `cpu`",
        f"`{VOCODE}`, batch 1–4: eager: nothing is captured on a `cpu`",
    )


def test_a_region_that_is_to_run_call_by_call_contradicts_that(plan_folder: Path) -> None:
    with pytest.raises(RuntimeFailure) as caught:
        ranks_of(plan_folder, require_graphs=True, eager=("R1",))
    assert caught.value.notes == (f"`{VOCODE}`, batch 1–4: eager: `--eager` asks for it",)


def test_a_size_whose_graph_is_missing_is_found(plan_folder: Path) -> None:
    worker = ranks_of(plan_folder, buckets=(1, 2, 8)).workers[0]
    decode = next(step for step in worker.plan.steps if getattr(step, "name", "") == DECODE)
    worker.coverage.captured.discard((decode.id, 8))
    assert uncovered(worker) == [
        f"`{DECODE}`, batch 3–8: eager: no graph of this size was captured"
    ]


def test_a_run_without_graphs_says_nothing_of_them(plan_folder: Path) -> None:
    assert list(coverage_lines(run(ranks_of(plan_folder, captures=False), plan_folder, 1))) == []
