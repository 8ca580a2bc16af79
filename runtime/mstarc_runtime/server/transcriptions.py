"""`/v1/audio/transcriptions`: a sound file in, its transcript out.

The form is kept in memory, and its file's name is never used. A model that also replies to what it
hears does so here too, and nobody gets the reply.
"""

from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from mstarc_runtime.request import Asked, PreparedRequest, prepare_read
from mstarc_runtime.server import body as fields
from mstarc_runtime.server.abilities import cannot
from mstarc_runtime.server.inputs import Given, inputs_of
from mstarc_runtime.server.live import Live, Text
from mstarc_runtime.server.models import check_model
from mstarc_runtime.server.service import Service
from mstarc_runtime.server.streaming import Pieces, event, streamed_events, unless_gone

ROUTE: Final = "/v1/audio/transcriptions"
FIELDS: Final = ("file", "model", "response_format", "stream")


class _InMemory(MultiPartParser):
    """Writes no part to a disk: a body has a limit of its own."""

    spool_max_size = 1 << 40


@dataclass(frozen=True, slots=True, kw_only=True)
class _Transcription:
    """What a request asks for."""

    prepared: PreparedRequest
    as_text: bool
    is_streamed: bool


async def transcribe(request: Request, service: Service) -> Response:
    """Writes down what is heard. Fails with MS9202 … MS9218."""
    if not service.abilities.can_transcribe:
        raise cannot(service.plan, ROUTE, "it takes a sound alone and has an output `transcript`")
    form, sound = await _form(request)
    service.check_ready()
    asked = await run_in_threadpool(_read, service, form, sound)
    live = service.submit(asked.prepared, ROUTE)
    end = service.ender(live)
    if asked.is_streamed:
        return await streamed_events(request, _events(service, live), end=end)
    return await unless_gone(request, _whole(service, live, asked), end)


async def _form(request: Request) -> tuple[dict[str, str], bytes]:
    """The fields that are texts, and the file's bytes."""
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise fields.wrong("the body is not multipart/form-data", "`file` holds the sound")
    try:
        parser = _InMemory(request.headers, request.stream(), max_files=1, max_fields=64)
        form = await parser.parse()
    except MultiPartException as error:
        raise fields.wrong("the body is not multipart/form-data", error.message) from error
    file = form.get("file")
    if not isinstance(file, UploadFile):
        raise fields.wrong("there is no `file`", "it holds the sound")
    texts = {name: value for name, value in form.multi_items() if isinstance(value, str)}
    return texts, await file.read()


def _read(service: Service, form: Mapping[str, str], sound: bytes) -> _Transcription:
    abilities = service.abilities
    assert abilities.transcript is not None
    # A form has only texts, so that an option of any kind is read from one, as on a command line.
    fields.check_fields(form, {*FIELDS, *abilities.options}, "a transcription")
    options: dict[str, Any] = {name: form[name] for name in abilities.options if name in form}
    check_model(service.plan, form)
    style = fields.choice(form, "response_format", ("json", "text"), "json")
    is_streamed = fields.choice(form, "stream", ("true", "false"), "false") == "true"
    prepared = prepare_read(
        service.plan,
        Asked(options=options, wants=(abilities.transcript.name,)),
        inputs_of(abilities, [Given(kind="audio", content=sound)]),
    )
    return _Transcription(prepared=prepared, as_text=style == "text", is_streamed=is_streamed)


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
