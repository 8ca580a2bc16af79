"""`/v1/chat/completions`: messages in, a reply as text and sound out, whole or as events.

Fields of the request that are not the route's own are options of the spec, by their names there.
`max_completion_tokens` is the spec's `max_tokens`, and `audio.voice` its `voice`.
"""

import base64
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response

from mstarc_runtime.request import Asked
from mstarc_runtime.server import body as fields
from mstarc_runtime.server import turns
from mstarc_runtime.server.abilities import Abilities, cannot
from mstarc_runtime.server.inputs import Given, prepared
from mstarc_runtime.server.live import Live, Sound, Text
from mstarc_runtime.server.models import check_model
from mstarc_runtime.server.samples import ender_of, events_of, samples_of
from mstarc_runtime.server.service import Service
from mstarc_runtime.server.sound_formats import encoded, formats, pcm
from mstarc_runtime.server.streaming import DONE, Json, Pieces, event, streamed_events, unless_gone
from mstarc_runtime.server.threads import in_thread

ROUTE: Final = "/v1/chat/completions"
FIELDS: Final = (
    *("model", "messages", "stream", "stream_options", "modalities", "audio"),
    *("max_completion_tokens", "n", "user", *turns.FIELDS),
)
MOST: Final = 8
_MEDIA: Final = {"image_url": "image", "video_url": "video"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chat:
    """What a request asks for."""

    asked: Asked
    given: Sequence[Given]
    count: int
    wants_text: bool
    sound_format: str | None
    is_streamed: bool
    with_usage: bool
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid.uuid4().hex}")
    made_s: int = field(default_factory=lambda: int(time.time()))


async def chat(request: Request, service: Service) -> Response:
    """Answers messages. Fails with MS9210 … MS9218."""
    if not service.abilities.can_chat:
        why = "the route takes messages and replies with text"
        raise cannot(service.plan, ROUTE, why)
    body = await request.body()
    content = fields.read_object(body)
    service.check_ready()
    turns.read_fields(content, service.abilities.options)
    asked = await in_thread(lambda: _read(service, content), size_bytes=len(body))
    request_for = await prepared(service, asked.asked, asked.given)
    lives = service.submit_all(samples_of(request_for, asked.count), ROUTE)
    end = ender_of(service, lives)
    if asked.is_streamed:
        return await streamed_events(request, _chunks(service, lives, asked), end=end)
    return await unless_gone(request, _completion(service, lives, asked), end)


def _read(service: Service, content: Mapping[str, Any]) -> _Chat:
    abilities = service.abilities
    options = fields.options_in(content, FIELDS, abilities.options, "a chat completion")
    check_model(service.plan, content)
    count = fields.field(content, "n", "whole number", 1)
    if not 1 <= count <= MOST:
        raise fields.wrong(f"`n` can't be {count}", f"it is 1 .. {MOST}")
    longest = fields.field(content, "max_completion_tokens", "whole number")
    if longest is not None:
        options["max_tokens"] = longest
    wanted = fields.field(content, "modalities", "list", ["text"])
    for kind in wanted:
        if kind not in ("text", "audio"):
            raise fields.wrong(f"`modalities` can't have {fields.shown(kind)}")
    if not wanted:
        raise fields.wrong("`modalities` is empty")
    is_streamed = fields.field(content, "stream", "true or false", False)
    form = _sound(service, content, options, is_streamed) if "audio" in wanted else None
    streaming = fields.field(content, "stream_options", "object", {})
    fields.check_fields(streaming, ("include_usage",), "`stream_options`")
    outputs = [abilities.reply if "text" in wanted else None, abilities.sound if form else None]
    return _Chat(
        asked=Asked(
            options=fields.checked_options(options, service.plan.options),
            wants=tuple(output.name for output in outputs if output is not None),
            seed=options.get("seed"),
        ),
        given=read_messages(content),
        count=count,
        wants_text="text" in wanted,
        sound_format=form,
        is_streamed=is_streamed,
        with_usage=fields.field(streaming, "include_usage", "true or false", False),
    )


def _sound(
    service: Service, content: Mapping[str, Any], options: dict[str, Any], is_streamed: bool
) -> str:
    """The format of the sound; a voice becomes an option."""
    if service.abilities.sound is None:
        raise cannot(service.plan, ROUTE, "`modalities` has `audio`, and it makes no sound")
    said = fields.field(content, "audio", "object", {})
    fields.check_fields(said, ("format", "voice"), "`audio`")
    read_voice(service.abilities, said, options)
    if is_streamed:
        return fields.choice(said, "format", ("pcm16", "pcm"), "pcm16")
    known = ("pcm16", *formats())
    return fields.choice(said, "format", known, "wav")


def read_voice(abilities: Abilities, said: Mapping[str, Any], options: dict[str, Any]) -> None:
    """`voice` as the spec's option; of a model without voices only `default`. Fails with MS9217."""
    voice = fields.field(said, "voice", "text")
    if voice is None:
        return
    if "voice" in abilities.options:
        options["voice"] = voice
    elif voice != "default":
        raise fields.wrong("the model has one voice", "leave `voice` out, or say `default`")


def read_messages(content: Mapping[str, Any]) -> list[Given]:
    """The parts of all messages, in order. Fails with MS9217."""
    messages = fields.field(content, "messages", "list", [])
    if not messages:
        raise fields.wrong("there are no `messages`")
    given: list[Given] = []
    for number, message in enumerate(messages):
        where = f"message {number}"
        if not isinstance(message, dict):
            raise fields.wrong(f"{where} can't be {fields.shown(message)}", "it is an object")
        fields.check_fields(message, ("role", "content", "name"), where)
        roles = ("user", "system", "developer", "assistant")
        role = fields.choice(message, "role", roles, "user")
        role = "system" if role == "developer" else role
        said = message.get("content")
        if isinstance(said, str):
            given.append(Given(kind="text", content=said, role=role))
        elif isinstance(said, list) and said:
            given += [_part(part, role, where) for part in said]
        else:
            raise fields.wrong(f"`content` of {where} can't be {fields.shown(said)}")
    return given


def _part(part: Any, role: str, where: str) -> Given:
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        raise fields.wrong(f"{where} has a part without a `type`: {fields.shown(part)}")
    kind = part["type"]
    known = ("text", "image_url", "video_url", "input_audio")
    fields.choice(part, "type", known, "text")
    if kind == "text":
        fields.check_fields(part, ("type", "text"), f"a part of {where}")
        return Given(kind="text", content=fields.field(part, "text", "text", ""), role=role)
    inside = fields.field(part, kind, "object", {})
    fields.check_fields(part, ("type", kind), f"a part of {where}")
    if kind == "input_audio":
        fields.check_fields(inside, ("data", "format"), f"`input_audio` of {where}")
        content = fields.decoded(inside.get("data"), "input_audio.data")
        return Given(kind="audio", content=content, role=role)
    fields.check_fields(inside, ("url", "detail"), f"`{kind}` of {where}")
    content = fields.decoded(inside.get("url"), f"{kind}.url")
    return Given(kind=_MEDIA[kind], content=content, role=role)


@dataclass(slots=True, kw_only=True, eq=False)
class _Said:
    """All of one answer."""

    texts: list[str] = field(default_factory=list)
    sounds: list[NDArray[np.float32]] = field(default_factory=list)
    rate: int = 24000


async def _completion(service: Service, lives: Sequence[Live], asked: _Chat) -> Response:
    said = [_Said() for _ in lives]
    async with aclosing(events_of(service, lives)) as events:
        async for number, made in events:
            if isinstance(made, Text):
                said[number].texts.append(made.piece)
            elif isinstance(made, Sound):
                said[number].sounds.append(made.samples)
                said[number].rate = made.rate
    choices = [
        {
            "index": number,
            "message": await _message(asked, said[number]),
            "finish_reason": _reason(live, asked),
        }
        for number, live in enumerate(lives)
    ]
    head = _head(service, asked, "chat.completion")
    return Json({**head, "choices": choices, "usage": _usage(service, lives)})


async def _message(asked: _Chat, said: _Said) -> dict[str, Any]:
    size = sum(sound.nbytes for sound in said.sounds)
    return await in_thread(lambda: _message_of(asked, said), size_bytes=size)


def _message_of(asked: _Chat, said: _Said) -> dict[str, Any]:
    text = "".join(said.texts)
    message: dict[str, Any] = {"role": "assistant", "content": text if asked.wants_text else None}
    if asked.sound_format is not None:
        content = encoded(said.sounds, said.rate, asked.sound_format.removesuffix("16"))
        data = base64.b64encode(content).decode()
        message["audio"] = {"id": f"audio-{asked.id}", "data": data, "transcript": text}
    return message


async def _chunks(service: Service, lives: Sequence[Live], asked: _Chat) -> Pieces:
    head = _head(service, asked, "chat.completion.chunk")

    def chunk(number: int, delta: Mapping[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": number, "delta": delta, "finish_reason": reason}
        return event({**head, "choices": [choice]})

    begun: set[int] = set()
    async with aclosing(events_of(service, lives)) as events:
        async for number, made in events:
            if number not in begun:
                yield chunk(number, {"role": "assistant"})
            begun.add(number)
            if isinstance(made, Text):
                delta: dict[str, Any] = {"content": made.piece}
                if asked.sound_format is not None:
                    delta["audio"] = {"id": f"audio-{asked.id}", "transcript": made.piece}
                yield chunk(number, delta)
            elif isinstance(made, Sound):
                data = base64.b64encode(pcm(made.samples)).decode()
                yield chunk(number, {"audio": {"id": f"audio-{asked.id}", "data": data}})
    for number, live in enumerate(lives):
        yield chunk(number, {}, _reason(live, asked))
    if asked.with_usage:
        yield event({**head, "choices": [], "usage": _usage(service, lives)})
    yield DONE


def _usage(service: Service, lives: Sequence[Live]) -> dict[str, int]:
    """The prompt counts once, as all answers have the same."""
    made = sum(live.tokens for live in lives)
    reply = service.abilities.reply
    read = None if reply is None else lives[0].read.get(reply.name)
    if read is None:
        return {"completion_tokens": made}
    return {"prompt_tokens": read, "completion_tokens": made, "total_tokens": read + made}


def _head(service: Service, asked: _Chat, kind: str) -> dict[str, Any]:
    return {"id": asked.id, "object": kind, "created": asked.made_s, "model": service.plan.model}


def _reason(live: Live, asked: _Chat) -> str:
    """`length` where as many tokens came as the request allows."""
    most = asked.asked.options.get("max_tokens")
    return "length" if most is not None and live.tokens >= most else "stop"
