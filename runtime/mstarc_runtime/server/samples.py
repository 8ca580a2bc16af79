"""Several answers to one question: requests that differ in their seed, all taken or none.

The first has the seed that was given, or 0, each other one more than the one before.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

from mstarc_runtime.request import PreparedRequest
from mstarc_runtime.server.live import Event, Live
from mstarc_runtime.server.service import Service


def samples_of(prepared: PreparedRequest, count: int) -> list[PreparedRequest]:
    """The request and `count - 1` more, each with its own seed."""
    first = prepared.options.get("seed", prepared.seed)
    made = [prepared]
    for number in range(1, count):
        seed = first + number
        own = {"seed": seed} if "seed" in prepared.options else {}
        made.append(replace(prepared, seed=seed, options={**prepared.options, **own}))
    return made


def ender_of(service: Service, lives: Sequence[Live]) -> Callable[[], None]:
    """What ends those of them that are not over."""

    def end() -> None:
        for live in lives:
            service.cancel(live)

    return end


async def events_of(
    service: Service, lives: Sequence[Live]
) -> AsyncGenerator[tuple[int, Event], None]:
    """(which, what it makes) of all of them as it comes. The first failure of one is raised."""
    if len(lives) == 1:
        async with aclosing(service.events(lives[0])) as events:
            async for only in events:
                yield 0, only
        return
    # One place: what nobody takes stays in each `Live`, which has a bound.
    coming: asyncio.Queue[tuple[int, Event | None]] = asyncio.Queue(1)

    async def follow(number: int) -> None:
        async with aclosing(service.events(lives[number])) as events:
            async for made in events:
                await coming.put((number, made))
        await coming.put((number, None))

    following = [asyncio.ensure_future(follow(number)) for number in range(len(lives))]
    left = len(lives)
    try:
        while left:
            taking = asyncio.ensure_future(coming.get())
            failing = [task for task in following if not task.done()]
            await asyncio.wait({taking, *failing}, return_when=asyncio.FIRST_COMPLETED)
            for task in following:
                if task.done() and task.exception() is not None:
                    taking.cancel()
                    task.result()
            number, made = await taking
            if made is None:
                left -= 1
            else:
                yield number, made
    finally:
        for task in following:
            task.cancel()
        await asyncio.wait(following)
