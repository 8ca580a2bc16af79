"""How fast requests come in a soak: at a share of a capacity that is measured again and again.

Whatever else runs on the machine changes what a server can do. So every minute all slots are kept
taken for a few seconds; what is done then in a second is the capacity, and until the next time
requests come so often that the share, these seconds included, is what was asked for. Work is
counted in runs of the plan's steps, by the requests in them, as the workers tell it: that is known
to a fraction of a second, and a long request is more of it than a short one.

What the share really was is measured the same way, slice by slice; slices in which a worker was
away are left out.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import httpx

_FULL_S = 6.0
_HOLD_S = 54.0
_SLICE_S = 9.0
_FILLS_S = 1.0
# How many measurements the capacity of now is the mean of.
_RECENT = 2
_LINE = re.compile(r"mstarc_step_requests_total\{(.*)\} (\S+)")
_PROCESS = re.compile(r'process="([^"]*)"')
_BLOCKS = re.compile(r'mstarc_python_blocks\{process="([^"]*)"\} (\S+)')


@dataclass(frozen=True, slots=True)
class Work:
    """Runs of steps until `at_s`, by process, in which each request counts."""

    at_s: float
    done: Mapping[str, float]


@dataclass
class Pace:
    """The rate at which requests come now, in requests a second; 0: none come.

    `one` makes a request and waits for its end. `share` is of the capacity.
    """

    http: httpx.AsyncClient
    at_once: int
    share: float
    one: Callable[[], Awaitable[None]]
    rate: float = 0.0
    # (seconds, runs of steps a second), as measured with all slots taken and in between.
    full: list[tuple[float, float]] = field(default_factory=list)
    held: list[tuple[float, float]] = field(default_factory=list)
    came: int = 0
    # By process: when it was looked, and thousands of pieces of memory that its objects held then.
    blocks: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    # Runs of steps that a request takes.
    _each: float = 0.0

    @property
    def capacity(self) -> float:
        """Runs of steps a second that the server can do now."""
        recent = [speed for _, speed in self.full[-_RECENT:]]
        return sum(recent) / len(recent)

    @property
    def requests_a_second(self) -> float:
        """The same in requests as they come."""
        return self.capacity / self._each

    async def begin(self, lasts_s: float) -> None:
        """The first measurement, which also tells how much work a request is."""
        before, came = await self._work(), self.came
        while not await self._fill(lasts_s):
            pass
        after = await self._work()
        assert before is not None and after is not None, "workers tell what they have done"
        done = sum(after.done.values()) - sum(before.done.values())
        self._each = done / (self.came - came)

    async def keep(self, ends_s: float) -> None:
        """Adapts the rate until then."""
        in_between = (self.share * (_FULL_S + _HOLD_S) - _FULL_S) / _HOLD_S
        while time.monotonic() < ends_s:
            self.rate = in_between * self.requests_a_second
            await self._hold(min(ends_s, time.monotonic() + _HOLD_S))
            self.rate = 0.0
            if time.monotonic() + _FULL_S < ends_s:
                await self._fill(_FULL_S)

    def shares(self) -> list[float]:
        """The share of the capacity that each slice was, by the measurements on both its sides."""
        return [speed / self._at(at_s) for at_s, speed in self.held]

    def whole_share(self) -> float:
        """Over all the time in which it was measured, that with all slots taken included."""
        shares = self.shares()
        full_s = _FULL_S * (len(self.full) - 1)
        return (_SLICE_S * sum(shares) + full_s) / (_SLICE_S * len(shares) + full_s)

    def _at(self, at_s: float) -> float:
        before = [speed for full_s, speed in self.full if full_s <= at_s][-1:]
        after = [speed for full_s, speed in self.full if full_s > at_s][:1]
        found = before + after
        return sum(found) / len(found)

    async def _fill(self, lasts_s: float) -> bool:
        """Keeps all slots taken, and notes what is done; False if a worker was away meanwhile."""
        ends_s = time.monotonic() + _FILLS_S + lasts_s

        async def again() -> None:
            while time.monotonic() < ends_s:
                self.came += 1
                await self.one()

        asking = [asyncio.create_task(again()) for _ in range(self.at_once)]
        await asyncio.sleep(_FILLS_S)
        before = await self._work()
        await asyncio.sleep(lasts_s)
        speed = _speed(before, await self._work())
        await asyncio.gather(*asking)
        if speed is None:
            return False
        self.full.append((time.monotonic(), speed))
        return True

    async def _hold(self, ends_s: float) -> None:
        before = await self._work()
        came, began = self.came, before
        while time.monotonic() + _SLICE_S <= ends_s:
            await asyncio.sleep(_SLICE_S)
            after = await self._work()
            speed = _speed(before, after)
            if speed is not None:
                self.held.append((time.monotonic() - _SLICE_S / 2, speed))
            before = after
        await asyncio.sleep(max(0.0, ends_s - time.monotonic()))
        spent = _speed(began, before)
        if spent is not None and began is not None and before is not None and self.came > came:
            each = spent * (before.at_s - began.at_s) / (self.came - came)
            self._each += 0.2 * (each - self._each)

    async def _work(self) -> Work | None:
        """None while a worker is away."""
        if (await self.http.get("/ready")).status_code != 200:
            return None
        text = (await self.http.get("/metrics")).text
        for process, value in _BLOCKS.findall(text):
            name = process if process == "server" else f"process {process}"
            self.blocks.setdefault(name, []).append((time.monotonic(), float(value) / 1000))
        done: dict[str, float] = {}
        for labels, value in _LINE.findall(text):
            process = _PROCESS.search(labels)
            assert process is not None, labels
            done[process[1]] = done.get(process[1], 0.0) + float(value)
        return Work(time.monotonic(), done)


def _speed(before: Work | None, after: Work | None) -> float | None:
    """Runs of steps a second; None where a worker was away or has begun anew."""
    if before is None or after is None or before.done.keys() != after.done.keys():
        return None
    more = [after.done[process] - before.done[process] for process in before.done]
    if not more or min(more) < 0:
        return None
    return sum(more) / (after.at_s - before.at_s)
