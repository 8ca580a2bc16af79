"""`/v1/audio/speech`: a text in, its sound out: wav and pcm as they are made, others when whole."""

import base64
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from mstarc_runtime.request import Asked
from mstarc_runtime.server import body as fields
from mstarc_runtime.server import turns
from mstarc_runtime.server.abilities import cannot, rate_of
from mstarc_runtime.server.chat import read_voice
from mstarc_runtime.server.inputs import Given, prepared
from mstarc_runtime.server.live import Live, Sound
from mstarc_runtime.server.models import check_model
from mstarc_runtime.server.service import Service
from mstarc_runtime.server.sound_formats import (
    CONTENT_TYPES,
    STREAMED,
    encoded,
    formats,
    pcm,
    wav_header,
)
from mstarc_runtime.server.streaming import (
    Pieces,
    event,
    streamed,
    streamed_events,
    unless_gone,
)

ROUTE: Final = "/v1/audio/speech"
FIELDS: Final = (
    *("model", "input", "voice", "response_format", "stream_format", "stream", "speed"),
    *turns.FIELDS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Speech:
    """What a request asks for. `rate` is the sound's, if the spec says it."""

    asked: Asked
    text: str
    form: str
    is_streamed: bool
    as_events: bool
    rate: int | None


async def speech(request: Request, service: Service) -> Response:
    """Speaks a text. Fails with MS9210 … MS9218."""
    if not service.abilities.can_speak:
        raise cannot(service.plan, ROUTE, "the route makes sound of a text alone")
    content = fields.read_object(await request.body())
    service.check_ready()
    turns.read_fields(content, service.abilities.options)
    asked = _read(service, content)
    given = [Given(kind="text", content=asked.text)]
    live = service.submit(await prepared(service, asked.asked, given), ROUTE)
    end = service.ender(live)
    if asked.as_events:
        return await streamed_events(request, _events(service, live), end=end)
    if asked.is_streamed:
        headers = {"content-type": _content_type(asked, asked.rate)}
        return await streamed(request, _bytes(service, live, asked), headers, end=end)
    return await unless_gone(request, _whole(service, live, asked), end)


def _read(service: Service, content: Mapping[str, Any]) -> _Speech:
    abilities = service.abilities
    assert abilities.sound is not None
    options = fields.options_in(content, FIELDS, abilities.options, "speech")
    check_model(service.plan, content)
    text = fields.field(content, "input", "text")
    if text is None:
        raise fields.wrong("there is no `input`", "it is the text to speak")
    if fields.field(content, "speed", "number", 1.0) != 1.0:
        raise fields.wrong("`speed` is 1 here")
    read_voice(abilities, content, options)
    form = fields.choice(content, "response_format", formats(), "wav")
    as_events = fields.choice(content, "stream_format", ("audio", "sse"), "audio") == "sse"
    if as_events and form not in STREAMED:
        raise fields.wrong(f"`{form}` is made when the sound is whole", "events carry `pcm`")
    rate = rate_of(abilities.sound.type)
    # The head of a stream needs the rate before there is sound.
    can_stream = form in STREAMED and rate is not None
    return _Speech(
        asked=Asked(
            options=fields.checked_options(options, service.plan.options),
            wants=(abilities.sound.name,),
            seed=options.get("seed"),
        ),
        text=text,
        form=form,
        is_streamed=can_stream and fields.field(content, "stream", "true or false", True),
        as_events=as_events,
        rate=rate,
    )


def _content_type(asked: _Speech, rate: int | None) -> str:
    plain = CONTENT_TYPES[asked.form]
    return f"{plain};rate={rate};channels=1" if asked.form == "pcm" and rate else plain


async def _bytes(service: Service, live: Live, asked: _Speech) -> Pieces:
    assert asked.rate is not None
    is_first = True
    async with aclosing(service.events(live)) as events:
        async for made in events:
            if not isinstance(made, Sound):
                continue
            head = wav_header(asked.rate, None) if is_first and asked.form == "wav" else b""
            is_first = False
            yield head + pcm(made.samples)
    if is_first and asked.form == "wav":
        yield wav_header(asked.rate, 0)


async def _events(service: Service, live: Live) -> Pieces:
    async with aclosing(service.events(live)) as events:
        async for made in events:
            if isinstance(made, Sound):
                data = base64.b64encode(pcm(made.samples)).decode()
                yield event({"type": "speech.audio.delta", "audio": data, "rate": made.rate})
    yield event({"type": "speech.audio.done"})


async def _whole(service: Service, live: Live, asked: _Speech) -> Response:
    sounds: list[NDArray[np.float32]] = []
    rate = asked.rate
    async with aclosing(service.events(live)) as events:
        async for made in events:
            if isinstance(made, Sound):
                sounds.append(made.samples)
                rate = made.rate
    content = await run_in_threadpool(encoded, sounds, rate or 24000, asked.form)
    return Response(content, headers={"content-type": _content_type(asked, rate)})
