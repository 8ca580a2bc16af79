"""Stretches of a node in two shards: one message each, and the bytes of passes one by one.

Two ranks of the tiny Orpheus as threads, regions captured as bodies that are run again. Its loop
stops at a code that requests draw now and then: rows stop within a stretch on the leader, and the
other rank is never told.
"""

import re
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from mstarc_runtime.assembly import (
    Extras,
    RunSettings,
    make_implementations,
    make_via,
    make_worker,
    use_threads,
)
from mstarc_runtime.attention.torch_reference import TorchAttention
from mstarc_runtime.conductor import Conductor
from mstarc_runtime.engine import rerun
from mstarc_runtime.engine.following_graphs import FollowingGraphs, FollowingQueue
from mstarc_runtime.engine.host import InlinePool
from mstarc_runtime.engine.mirroring import MirroredBatch, MirroredStep
from mstarc_runtime.engine.rerun import RerunExecutor
from mstarc_runtime.grouping import GroupLost
from mstarc_runtime.loader import LoadedPlan, load_placement, load_plan
from mstarc_runtime.messages import NodeActions
from mstarc_runtime.plan_api import DeviceStep
from mstarc_runtime.request import Asked, prepare
from mstarc_runtime.stretches import Stretch
from mstarc_runtime.transport.local import LocalMailbox, LocalNetwork
from mstarc_runtime.transport.mailbox import CONDUCTOR
from mstarc_runtime.weights.progress import PlainProgress
from mstarc_runtime.worker import Worker
from tests.runtime.plan_folder import seal
from tests.runtime.rig import Collected, nowhere
from tests.support.layout_runs import compile_layouts

LAYOUT = "shards"
OFTEN = 301
REQUESTS = [("hello", 44), ("a longer prompt", 30), ("hm", 41), ("four", 20)]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> LoadedPlan:
    folder = tmp_path_factory.mktemp("led") / "plan"
    groups: Any = (("frontend, codec", "0", {}), ("lm", "0, 1", {"tp_size": 2}))
    compile_layouts("orpheus", folder, {LAYOUT: groups})
    machines = folder / "machines.py"
    lines = [
        f"EOS = {OFTEN}" if line.startswith("EOS = ") else line
        for line in machines.read_text().splitlines()
    ]
    machines.write_text("\n".join(lines) + "\n")
    seal(folder)
    return load_plan(folder)


class Shards:
    """Both ranks; the second takes its turns in a thread of its own."""

    def __init__(self, plan: LoadedPlan, folder: Path, stretch: int) -> None:
        self._plan = plan
        self._placement = load_placement(plan, LAYOUT)
        self._network = LocalNetwork()
        self._settings = RunSettings(cache_dir=folder, threads=1, deterministic=False, buckets=(4,))
        self._folder, self._stretch = folder, stretch
        self._done, self._is_there = threading.Event(), threading.Event()
        self.follower: Worker | None = None
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()
        use_threads(1)
        self.leader = self._worker(0)
        self.conductor = Conductor(
            plan,
            self._placement,
            mailbox=self._network.mailbox(CONDUCTOR),
            pool=InlinePool(),
            via=make_via(plan, make_implementations(self._settings, PlainProgress(nowhere()))),
        )
        assert self._is_there.wait(60), "the other rank has failed"
        # What was captured is given back on the other rank with the first turns.
        for _ in range(50):
            self.turns(1)
            self._thread.join(0.002)
        self.empty: list[dict[str, Any]] = self.snapshot()

    def snapshot(self) -> list[dict[str, Any]]:
        assert self.follower is not None
        return [self.leader.snapshot(), self.follower.snapshot()]

    def ask(self, seed: int) -> tuple[int, Collected]:
        prompt, most = REQUESTS[seed]
        asked = Asked(inputs={"prompt": prompt}, options={"temperature": 0.9, "max_tokens": most})
        made = Collected()
        return self.conductor.submit(prepare(self._plan, asked, seed=seed), made), made

    def turns(self, count: int) -> bool:
        """Whether anything was done."""
        did = [self.leader.turn() | self.conductor.turn() for _ in range(count)]
        return any(did)

    def finish(self) -> None:
        for _ in range(5000):
            if not self.turns(1):
                self._thread.join(0.002)  # a request is over when the other rank has heard it
            assert self._thread.is_alive(), "the other rank has failed"
            if not self.conductor.pending:
                break
        assert not self.conductor.pending
        for _ in range(500):
            self.turns(1)
            if self.snapshot() == self.empty:
                return
            self._thread.join(0.002)
        assert self.snapshot() == self.empty

    def close(self) -> None:
        self._done.set()
        self._thread.join()

    def _follow(self) -> None:
        use_threads(1)  # of this thread
        worker = self._worker(1)
        self.follower = worker
        self._is_there.set()
        while not self._done.is_set():
            if not worker.turn():
                worker.wait(0.002)

    def _worker(self, process: int) -> Worker:
        return make_worker(
            self._plan,
            self._placement,
            self._placement.processes[process],
            mailbox=self._network.mailbox(process),
            pool=InlinePool(),
            settings=self._settings,
            progress=PlainProgress(nowhere()),
            extras=Extras(
                executor=RerunExecutor(),
                attention=lambda cache: TorchAttention(cache, row_by_row=False),
                stretch=self._stretch,
            ),
            sockets=self._folder,
        )


@contextmanager
def shards(plan: LoadedPlan, folder: Path, stretch: int) -> Iterator[Shards]:
    folder.mkdir()
    made = Shards(plan, folder, stretch)
    try:
        yield made
    finally:
        made.close()


def speak(ranks: Shards, seeds: Sequence[int], stagger: int) -> list[bytes]:
    made = []
    for seed in seeds:
        made.append(ranks.ask(seed)[1])
        ranks.turns(stagger)
    ranks.finish()
    assert [one.events[-1] for one in made] == ["finished"] * len(made)
    return [b"".join(one.values.get("speech", [])) for one in made]


@pytest.fixture(scope="module")
def said(plan: LoadedPlan, tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    with shards(plan, tmp_path_factory.mktemp("each") / "pass", 0) as ranks:
        sounds = speak(ranks, range(4), stagger=3)
    windows = [len(sound) // (4 * 2048) for sound in sounds]
    most = [max(0, (count - 28) // 7 + 1) for _, count in REQUESTS]
    assert any(made < could for made, could in zip(windows, most, strict=True)), "somebody stops"
    assert any(windows)
    return sounds


@pytest.fixture
def _late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device is not done when the host first asks."""
    asked: set[Stretch] = set()

    def has_come(self: Stretch) -> bool:
        was_asked = self in asked
        asked.add(self)
        return was_asked

    monkeypatch.setattr(Stretch, "has_come", has_come)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The passes that each message has told the other rank of."""
    found: list[int] = []
    send = LocalMailbox.send

    def noted(self: LocalMailbox, to: int, message: Any, frames: Any = ()) -> None:
        if isinstance(message, NodeActions):
            found.append(sum(a.arguments[2].plain for a in message.actions if a.kind == "replay"))
        send(self, to, message, frames)

    monkeypatch.setattr(LocalMailbox, "send", noted)
    return found


@pytest.mark.usefixtures("_late")
@pytest.mark.parametrize(("stretch", "stagger"), [(1, 3), (4, 0), (7, 5)])
def test_shards_say_the_same_in_stretches(
    plan: LoadedPlan,
    said: list[bytes],
    tmp_path: Path,
    told: list[int],
    stretch: int,
    stagger: int,
) -> None:
    with shards(plan, tmp_path / "run", stretch) as ranks:
        assert speak(ranks, range(4), stagger) == said
    assert max(told) == stretch
    passes = sum(told)
    assert len([count for count in told if count]) <= passes / max(1, stretch / 3)


@pytest.mark.usefixtures("_late")
def test_shards_lend_pages_in_stretches(
    plan: LoadedPlan, said: list[bytes], tmp_path: Path
) -> None:
    folder = tmp_path / "narrow"
    shutil.copytree(plan.folder, folder)
    for module in (folder / "placements" / LAYOUT).glob("rank*.py"):
        text = re.sub(r"pages=\d+", "pages=8", module.read_text())
        module.write_text(re.sub(r"page_tokens=\d+", "page_tokens=8", text))
    seal(folder)
    with shards(load_plan(folder), tmp_path / "run", 4) as ranks:
        assert speak(ranks, range(4), 0) == said
        moves = ranks.leader.preempter.moves
        assert moves.set_aside == moves.brought_back > 0


@pytest.mark.usefixtures("_late")
def test_a_request_of_shards_that_is_cancelled_in_a_stretch_leaves_nothing(
    plan: LoadedPlan, said: list[bytes], tmp_path: Path
) -> None:
    with shards(plan, tmp_path / "run", 4) as ranks:
        for turns in (5, 11):
            _, kept = ranks.ask(0)
            number, cancelled = ranks.ask(2)
            ranks.turns(turns)
            was_over = cancelled.is_over
            ranks.conductor.cancel(number)
            ranks.finish()
            assert was_over or cancelled.events[-1] == "cancelled"
            assert b"".join(kept.values.get("speech", [])) == said[0]


def test_a_leader_that_fails_in_a_pass_of_which_others_know_ends(
    plan: LoadedPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, send = rerun.run_body, LocalMailbox.send

    def failing(rank: Any, batch: Any) -> None:
        if batch.told:
            raise ValueError("no more")
        run(rank, batch)

    def unheard(self: LocalMailbox, to: int, message: Any, frames: Any = ()) -> None:
        # So that the other rank does not wait here as it would.
        is_told = isinstance(message, NodeActions) and message.actions[-1].kind == "replay"
        if not is_told:
            send(self, to, message, frames)

    with shards(plan, tmp_path / "run", 4) as ranks:
        monkeypatch.setattr(rerun, "run_body", failing)
        monkeypatch.setattr(LocalMailbox, "send", unheard)
        ranks.ask(0)
        with pytest.raises(GroupLost, match="ValueError: no more"):
            ranks.finish()


def test_a_size_that_is_no_graph_is_told_call_by_call(plan: LoadedPlan, tmp_path: Path) -> None:
    with shards(plan, tmp_path / "run", 4) as ranks:
        leader = ranks.leader
        steps = [step for step in leader.plan.steps if isinstance(step, DeviceStep)]
        (step,) = [step for step in steps if step.stretch]
        batch = leader.stepper.batch_of(step, 4)
        stretches = leader.stepper.groups.stretches
        assert stretches.suits(batch)
        leader.coverage.captured.clear()
        assert not stretches.suits(batch)


def test_what_does_not_move_on_on_the_device_is_followed_pass_by_pass() -> None:
    device = torch.device("cpu")
    graphs = FollowingGraphs(FollowingQueue(device), device)
    step, slots = MirroredStep(name="talk.pass", rows="one"), np.arange(2)
    batch = MirroredBatch(
        step=step, bucket=2, slots=slots, slot_list=[0, 1], device=device, old=0, passes=2
    )
    batch.step_contexts = {("lm", "main", 0): SimpleNamespace(moving=None)}
    calls: list[int] = []
    graphs.capture(batch, lambda: calls.append(0))
    graphs.capture_end(batch)
    graphs.replay(batch, 0, 1, 1)
    assert len(calls) == 2
    with pytest.raises(AssertionError, match="does not go on by itself"):
        graphs.replay(batch, 0, 1, 2)


def test_a_steady_pass_is_the_same_message_again(
    plan: LoadedPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[NodeActions] = []
    send = LocalMailbox.send

    def noted(self: LocalMailbox, to: int, message: Any, frames: Any = ()) -> None:
        if isinstance(message, NodeActions):
            messages.append(message)
        send(self, to, message, frames)

    monkeypatch.setattr(LocalMailbox, "send", noted)
    with shards(plan, tmp_path / "run", 2) as ranks:
        ranks.ask(0)
        ranks.finish()
    again = [one is other for one, other in pairwise(messages)]
    assert sum(again) > len(again) / 2
