"""`/v1/audio/transcriptions`: a sound file in, its transcript out.

A model that also replies to what it hears does so here too, and nobody gets the reply.
"""

from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from mstarc_runtime.request import Asked
from mstarc_runtime.server import body as fields
from mstarc_runtime.server.abilities import cannot
from mstarc_runtime.server.forms import Form, read_form
from mstarc_runtime.server.inputs import Given, prepared
from mstarc_runtime.server.live import Live, Text
from mstarc_runtime.server.models import check_model
from mstarc_runtime.server.service import Service
from mstarc_runtime.server.streaming import Pieces, event, streamed_events, unless_gone

ROUTE: Final = "/v1/audio/transcriptions"
FIELDS: Final = ("file", "model", "response_format", "stream")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Transcription:
    """What a request asks for."""

    asked: Asked
    sound: bytes
    as_text: bool
    is_streamed: bool


async def transcribe(request: Request, service: Service) -> Response:
    """Writes down what is heard. Fails with MS9202 … MS9218."""
    if not service.abilities.can_transcribe:
        raise cannot(service.plan, ROUTE, "the route makes a `transcript` of a sound alone")
    form = await read_form(request, holds="`file` holds the sound", most_files=1)
    service.check_ready()
    asked = _read(service, form)
    given = [Given(kind="audio", content=asked.sound)]
    live = service.submit(await prepared(service, asked.asked, given), ROUTE)
    end = service.ender(live)
    if asked.is_streamed:
        return await streamed_events(request, _events(service, live), end=end)
    return await unless_gone(request, _whole(service, live, asked), end)


def _read(service: Service, sent: Form) -> _Transcription:
    abilities, form = service.abilities, sent.texts
    assert abilities.transcript is not None
    if "file" not in sent.files:
        raise fields.wrong("there is no `file`", "it holds the sound")
    # A form has only texts, so that an option of any kind is read from one, as on a command line.
    fields.check_fields(form, {*FIELDS, *abilities.options}, "a transcription")
    options: dict[str, Any] = {name: form[name] for name in abilities.options if name in form}
    check_model(service.plan, form)
    style = fields.choice(form, "response_format", ("json", "text"), "json")
    is_streamed = fields.choice(form, "stream", ("true", "false"), "false") == "true"
    return _Transcription(
        asked=Asked(options=options, wants=(abilities.transcript.name,)),
        sound=sent.files["file"][0],
        as_text=style == "text",
        is_streamed=is_streamed,
    )


async def _whole(service: Service, live: Live, asked: _Transcription) -> Response:
    texts: list[str] = []
    async with aclosing(service.events(live)) as events:
        async for made in events:
            if isinstance(made, Text):
                texts.append(made.piece)
    text = "".join(texts).strip()
    return PlainTextResponse(text) if asked.as_text else JSONResponse({"text": text})


async def _events(service: Service, live: Live) -> Pieces:
    texts: list[str] = []
    async with aclosing(service.events(live)) as events:
        async for made in events:
            if isinstance(made, Text):
                texts.append(made.piece)
                yield event({"type": "transcript.text.delta", "delta": made.piece})
    yield event({"type": "transcript.text.done", "text": "".join(texts).strip()})
