"""A timeline of a run: every rank's host and device, every request; and how busy a device was."""

import json
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from mstarc_runtime.assembly import RunSettings
from mstarc_runtime.engine.eager import EagerExecutor
from mstarc_runtime.engine.host import InlinePool
from mstarc_runtime.how_it_ran import keep_trace
from mstarc_runtime.launch import LocalRanks, ask_ranks, run_until_done
from mstarc_runtime.loader import load_placement, load_plan
from mstarc_runtime.request import Asked, prepare
from mstarc_runtime.trace import HostTrace, RequestTrace, Span, TracedExecutor
from mstarc_runtime.trace_file import steady_shares, trace_of
from mstarc_runtime.weights.progress import PlainProgress
from tests.runtime.plan_folder import write_plan
from tests.runtime.rig import Collected, nowhere


def requests(*times: tuple[int, int, int]) -> RequestTrace:
    """Requests that were let in, made something, and ended at these times."""
    trace = RequestTrace()
    for number, (admitted, made, ended) in enumerate(times):
        trace.slots[number] = number
        trace.times[number] = {
            "submitted": admitted,
            "admitted": admitted,
            "made": made,
            "ended": ended,
        }
    return trace


def device(begun: int, ended: int) -> Span:
    return ("device", "speak.decode", begun, ended - begun, {})


def test_decode_is_steady_while_all_that_are_in_have_made_something() -> None:
    # Alone from 10 to 20; from 20 to 30 the second has made nothing; both from 30 to 50.
    found = steady_shares(
        [device(0, 15), device(28, 35), device(33, 40), device(48, 80)],
        requests((0, 10, 60), (20, 30, 50)),
    )
    assert [(busy.requests, busy.wall_ns, busy.busy_ns) for busy in found] == [
        (1, 10 + 10, 5 + 10),
        (2, 20, 10 + 2),
    ]
    assert found[0].share == 0.75


def test_a_turn_in_which_nothing_was_done_leaves_nothing() -> None:
    trace = HostTrace()
    trace.begin_turn()
    trace.phase("receive")
    trace.end_turn(False, "turn")
    assert trace.all_spans() == []
    trace.begin_turn()
    trace.phase("prepare")
    trace.end_turn(True, "speak.decode")
    (_, phase, begun, length, _), (_, turn, turn_begun, turn_length, _) = trace.all_spans()
    assert (phase, turn) == ("prepare", "speak.decode")
    assert turn_begun <= begun
    assert length <= turn_length


def test_a_trace_that_is_too_long_says_how_much_it_leaves_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mstarc_runtime.trace.MOST_SPANS", 2)
    trace = HostTrace()
    for number in range(5):
        trace.add("host", str(number), number, number + 1)
    *kept, (_, name, _, _, facts) = trace.all_spans()
    assert [span[1] for span in kept] == ["0", "1"]
    assert (name, facts) == ("left out", {"spans": 3})


class Event:
    """A CUDA event on a device that is as far as `done_ms` says."""

    done_ms = 0.0
    given_ms = 0.0

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing
        self.at_ms = -1.0

    def record(self) -> None:
        self.at_ms = Event.given_ms

    def query(self) -> bool:
        return self.at_ms <= Event.done_ms

    def synchronize(self) -> None:
        Event.done_ms = max(Event.done_ms, self.at_ms)

    def elapsed_time(self, later: "Event") -> float:
        return later.at_ms - self.at_ms


class Launches(EagerExecutor):
    """Each run is given to the device, which takes 2 ms for it."""

    def run(self, rank: Any, batch: Any) -> None:
        Event.given_ms += 2.0


def test_a_gpu_s_spans_are_those_of_events_once_they_are_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torch.cuda.Event", Event)
    trace = HostTrace()
    executor = TracedExecutor(Launches(), trace, torch.device("cuda"))
    step = SimpleNamespace(name="speak.decode.pass", region="R0")
    batch: Any = SimpleNamespace(step=step, bucket=4, size=3)
    executor.run(None, batch)  # type: ignore[arg-type]
    executor.run(None, batch)  # type: ignore[arg-type]
    assert trace.spans == []  # the device has done nothing yet, and nobody waits for it
    Event.done_ms = 2.0
    executor.run(None, batch)  # type: ignore[arg-type]
    assert len(trace.spans) == 1
    spans = trace.all_spans()
    begun = [begin for _, _, begin, _, _ in spans]
    assert [length for _, _, _, length, _ in spans] == [2_000_000] * 3
    assert [after - before for before, after in pairwise(begun)] == [2_000_000] * 2
    assert spans[0][4] == {"region": "R0", "bucket": 4, "requests": 3}


def test_machines_of_a_device_have_rows_of_their_own() -> None:
    spans: list[Span] = [device(0, 5), ("device", "vocoder.listen", 2, 9, {})]
    events = trace_of({"rank 0": spans}, requests())["traceEvents"]
    names = {e["args"]["name"]: e["tid"] for e in events if e["name"] == "thread_name"}
    assert names == {"device: speak": 1, "device: vocoder": 2}


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, object], list[str]]:
    """The trace of two requests on one rank, as its file has it, and what was said."""
    folder = tmp_path_factory.mktemp("trace")
    plan = load_plan(write_plan("orpheus", folder))
    ranks = LocalRanks(
        plan,
        load_placement(plan, "cpu"),
        settings=RunSettings(cache_dir=Path("/nonexistent"), threads=1, trace=True),
        progress=PlainProgress(nowhere()),
        make_pool=lambda wake: InlinePool(),
    )
    ranks.conductor.trace = RequestTrace()
    for seed in range(2):
        asked = Asked(inputs={"prompt": "hello"}, options={"max_tokens": 36})
        ranks.conductor.submit(prepare(plan, asked, seed=seed), Collected())
    run_until_done(ranks)
    path = folder / "trace.json"
    said = keep_trace(ranks, ask_ranks(ranks, with_trace=True), path)
    return json.loads(path.read_text()), said


def spans_of(trace: dict[str, object], process: str, row: str) -> list[dict[str, object]]:
    events = trace["traceEvents"]
    assert isinstance(events, list)
    pid = next(
        e["pid"] for e in events if e["name"] == "process_name" and e["args"]["name"] == process
    )
    tid = next(
        e["tid"]
        for e in events
        if e["name"] == "thread_name" and e["pid"] == pid and e["args"]["name"] == row
    )
    return [e for e in events if e["ph"] == "X" and (e["pid"], e["tid"]) == (pid, tid)]


def test_a_rank_s_host_does_its_phases_within_turns(
    traced: tuple[dict[str, object], list[str]],
) -> None:
    spans = spans_of(traced[0], "rank 0", " host")
    phases = {str(span["name"]) for span in spans}
    assert {"prepare", "launch", "wait", "land", "speak.decode.pass"} <= phases
    # Of spans of a row each two are apart or one holds the other: else a viewer draws nonsense.
    open_until: list[float] = []
    for span in sorted(spans, key=lambda s: (float(str(s["ts"])), -float(str(s["dur"])))):
        begun, ended = float(str(span["ts"])), float(str(span["ts"])) + float(str(span["dur"]))
        while open_until and open_until[-1] <= begun + 1e-6:
            open_until.pop()
        assert not open_until or ended <= open_until[-1] + 1e-6
        open_until.append(ended)


def test_each_launch_is_a_span_of_the_device_with_its_region_and_sizes(
    traced: tuple[dict[str, object], list[str]],
) -> None:
    spans = spans_of(traced[0], "rank 0", "device: speak")
    passes = [span for span in spans if span["name"] == "speak.decode.pass"]
    assert passes
    assert all(span["args"]["region"] == "R0" for span in passes)  # type: ignore[index]
    assert {span["args"]["requests"] for span in passes} <= {1, 2}  # type: ignore[index]


def test_each_request_has_a_row_of_its_slot(traced: tuple[dict[str, object], list[str]]) -> None:
    for slot in range(2):
        names = [span["name"] for span in spans_of(traced[0], "requests", f"slot {slot}")]
        assert names == [f"request {slot}", "to first output", "after first output"]


def test_how_busy_the_device_was_is_said(traced: tuple[dict[str, object], list[str]]) -> None:
    assert any("steady decode with" in line for line in traced[1])
