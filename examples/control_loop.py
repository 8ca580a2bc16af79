"""A robot's control loop: an action a tick, at a rate that it holds while the next are computed.

    python examples/control_loop.py build/pi05 examples/pi05.json --rate 10 --seconds 5

A policy gives actions for the next ticks at once. While they are carried out, the next are asked
for, `--ahead` ticks before they run out. They begin at the tick at which they were asked for: those
of ticks that have passed until they come are left out, so that the robot goes on from where it is.
Where they come too late the last action is held, and said to be.
"""

import argparse
import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mstarc_runtime.assembly import RunSettings
from mstarc_runtime.errors import RuntimeFailure, render
from mstarc_runtime.launch import LocalRanks
from mstarc_runtime.loader import load_placement, load_plan
from mstarc_runtime.request import PreparedRequest, prepare, read_request_file
from mstarc_runtime.settings import read_settings
from mstarc_runtime.weights.progress import progress_to

Action = Sequence[float]


@dataclass(slots=True)
class Actions:
    """Which action a tick has. Ticks are numbered from 0."""

    ahead: int
    first: int = 0
    known: list[Action] = field(default_factory=list)
    asked_at: int | None = None
    held: int = 0

    def must_ask(self, tick: int) -> bool:
        """Whether it is time to ask for more, and nobody has."""
        left = self.first + len(self.known) - tick
        return self.asked_at is None and left <= self.ahead

    def ask(self, tick: int) -> None:
        self.asked_at = tick

    def arrive(self, actions: Sequence[Action]) -> None:
        """What was asked for, from the tick on at which it was."""
        assert self.asked_at is not None, "nobody has asked"
        self.first, self.known, self.asked_at = self.asked_at, list(actions), None

    def at(self, tick: int) -> Action | None:
        """The tick's action: the last one, held, where it has none; None before the first."""
        place = tick - self.first
        if 0 <= place < len(self.known):
            return self.known[place]
        self.held += 1
        return self.known[-1] if self.known else None


class Policy:
    """A plan that runs in a thread of its own. `answers` has what requests got."""

    def __init__(self, ranks: LocalRanks) -> None:
        self._ranks = ranks
        self._asked: queue.SimpleQueue[PreparedRequest | None] = queue.SimpleQueue()
        self.answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="policy")
        self._thread.start()

    def ask(self, request: PreparedRequest) -> None:
        self._asked.put(request)

    def close(self) -> None:
        self._asked.put(None)
        self._thread.join()
        self._ranks.close()

    def _run(self) -> None:
        while (request := self._asked.get()) is not None:
            listener = _Listener()
            self._ranks.conductor.submit(request, listener)
            while not listener.is_over:
                if not self._ranks.turn():
                    self._ranks.wait(0.001)
            self.answers.put(listener.failure or listener.actions)


class _Listener:
    def __init__(self) -> None:
        self.actions: Any = None
        self.failure: RuntimeFailure | None = None
        self.is_over = False

    def text(self, output: str, piece: str) -> None: ...

    def sound(self, output: str, samples: Any, rate: int) -> None: ...

    def value(self, output: str, value: Any) -> None:
        self.actions = value.tolist()

    def finished(self) -> None:
        self.is_over = True

    def failed(self, failure: RuntimeFailure) -> None:
        self.failure, self.is_over = failure, True

    def cancelled(self) -> None:
        self.is_over = True


def run_loop(
    policy: Policy,
    observe: Callable[[int], PreparedRequest],
    act: Callable[[Action], None],
    *,
    rate: float,
    ticks: int,
    ahead: int,
) -> tuple[Actions, float]:
    """Runs so many ticks; the actions, and by how many seconds the latest tick was late.

    The first tick waits for the first actions. Raises the failure of a request.
    """
    actions = Actions(ahead=ahead)
    actions.ask(0)
    policy.ask(observe(0))
    actions.arrive(_got(policy.answers.get()))
    start, latest = time.perf_counter(), 0.0
    for tick in range(ticks):
        due = start + tick / rate
        time.sleep(max(0.0, due - time.perf_counter()))
        latest = max(latest, time.perf_counter() - due)
        if actions.asked_at is not None and not policy.answers.empty():
            actions.arrive(_got(policy.answers.get()))
        if actions.must_ask(tick):
            actions.ask(tick)
            policy.ask(observe(tick))
        action = actions.at(tick)
        assert action is not None, "the first actions were waited for"
        act(action)
    if actions.asked_at is not None:
        policy.answers.get()
    return actions, latest


def _got(answer: Any) -> Sequence[Action]:
    if isinstance(answer, RuntimeFailure):
        raise answer
    actions: Sequence[Action] = answer
    return actions


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plan", type=Path)
    parser.add_argument("request", type=Path)
    parser.add_argument("--rate", type=float, default=10.0, help="ticks a second")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--ahead", type=int, default=5, help="ticks before actions run out")
    given = parser.parse_args()
    plan = load_plan(given.plan)
    (placement,) = (load_placement(plan, name) for name in plan.placements)
    asked = prepare(plan, read_request_file(given.request)[0])
    settings = RunSettings(cache_dir=read_settings().cache_dir)
    policy = Policy(
        LocalRanks(plan, placement, settings=settings, progress=progress_to(sys.stderr))
    )

    def observe(tick: int) -> PreparedRequest:
        # A robot would look and feel here; the example sees the same, with another noise.
        return replace(asked, options={**asked.options, "seed": tick})

    try:
        ticks = int(given.rate * given.seconds)
        actions, late = run_loop(
            policy, observe, lambda _: None, rate=given.rate, ticks=ticks, ahead=given.ahead
        )
    except RuntimeFailure as failure:
        sys.stderr.write(render(failure) + "\n")
        return 1
    finally:
        policy.close()
    print(
        f"{ticks} ticks at {given.rate:g} a second, the latest {late * 1e3:.1f} ms late, "
        f"{actions.held} without an action of their own"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
