"""A WebSocket of a client: its events, one after the other, and the answers that they ask for.

Events are handled in their order; an answer runs beside them, so that it can be interrupted. A
mistake is told as an `error` event with the id of the event that made it. When the client leaves,
its answer is cancelled like any request's.
"""

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.server import body as fields
from mstarc_runtime.server.abilities import cannot
from mstarc_runtime.server.models import check_model
from mstarc_runtime.server.realtime.answer import ROUTE, Answer, Reason
from mstarc_runtime.server.realtime.conversation import (
    Conversation,
    Item,
    decoded_samples,
    given_of,
    read_item,
    spoken_item,
)
from mstarc_runtime.server.realtime.hearing import Began, Buffer, Ended, Heard, silero
from mstarc_runtime.server.realtime.settings import (
    INPUT_RATE,
    first_settings,
    for_answer,
    updated,
)
from mstarc_runtime.server.refusals import error_of, refusal, refuse_socket
from mstarc_runtime.server.service import Service
from mstarc_runtime.server.streaming import ClientLeft

_PROTOCOL: Final = "realtime"


async def realtime(socket: WebSocket, service: Service) -> None:
    """Serves a connection until it ends. Refuses with a status before it is accepted."""
    try:
        check_origin(socket)
        if not service.abilities.can_converse:
            raise cannot(service.plan, ROUTE, "the route hears sound alone and replies")
        check_model(service.plan, {"model": socket.query_params.get("model")})
        service.check_ready()
    except RuntimeFailure as failure:
        service.metrics.refusals.labels(failure.code).inc()
        await refuse_socket(socket, refusal(failure, retry_after_s=service.retry_after_s))
        return
    offered = socket.scope.get("subprotocols", [])
    await socket.accept(subprotocol=_PROTOCOL if _PROTOCOL in offered else None)
    connection = _Connection(socket, service)
    try:
        with suppress(ClientLeft):
            await connection.serve()
    finally:
        await connection.close()


async def no_socket(_: Request, __: Service) -> Response:
    """What is told to a request that is none for a WebSocket."""
    said = fields.wrong(f"`{ROUTE}` is a WebSocket", "a request asks to upgrade to one")
    return refusal(said, status=426)


def check_origin(socket: WebSocket) -> None:
    """A page of another site must not talk through its visitor's browser. Fails with MS9217."""
    origin = socket.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != socket.headers.get("host"):
        raise fields.wrong(
            f"a page of `{origin}` may not connect", "pages of this server may, and other programs"
        )


class _Connection:
    """What there is of one client."""

    def __init__(self, socket: WebSocket, service: Service) -> None:
        self._socket = socket
        self._service = service
        self._settings = first_settings(service.abilities)
        self._session_id = _fresh("sess")
        self._conversation_id = _fresh("conv")
        self._conversation = Conversation(most_bytes=service.limits.body_bytes)
        self._buffer = Buffer(service.limits.media.sound_s)
        self._speaking_id = _fresh("item")
        self._answer: Answer | None = None
        self._answering: asyncio.Task[None] | None = None
        self._sending = asyncio.Lock()
        self._handlers: Mapping[str, Callable[[dict[str, Any]], Awaitable[None]]] = {
            "session.update": self._update,
            "input_audio_buffer.append": self._append,
            "input_audio_buffer.commit": self._commit,
            "input_audio_buffer.clear": self._clear,
            "conversation.item.create": self._create_item,
            "conversation.item.retrieve": self._retrieve_item,
            "conversation.item.truncate": self._truncate_item,
            "conversation.item.delete": self._delete_item,
            "response.create": self._create_response,
            "response.cancel": self._cancel_response,
        }

    async def serve(self) -> None:
        shown = self._settings.shown(self._service, self._session_id)
        await self._tell({"type": "session.created", "session": shown})
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            await self._handle(message.get("text") or message.get("bytes") or b"")

    async def close(self) -> None:
        """The client has left: its answer ends."""
        if self._answering is not None:
            self._answering.cancel()
            await asyncio.wait({self._answering})

    async def _handle(self, text: str | bytes) -> None:
        event_id = None
        try:
            said = fields.read_object(text.encode() if isinstance(text, str) else text)
            event_id = said.get("event_id") if isinstance(said.get("event_id"), str) else None
            kind = fields.field(said, "type", "text", "")
            handler = self._handlers[fields.choice(said, "type", tuple(self._handlers), kind)]
            await handler(said)
        except RuntimeFailure as failure:
            await self._tell_failure(failure, event_id)

    async def _tell_failure(self, failure: RuntimeFailure, event_id: str | None) -> None:
        self._service.metrics.refusals.labels(failure.code).inc()
        await self._tell({"type": "error", "error": {**error_of(failure), "event_id": event_id}})

    async def _tell(self, said: Mapping[str, Any]) -> None:
        text = json.dumps({"event_id": _fresh("event"), **said}, ensure_ascii=False)
        async with self._sending:
            try:
                await self._socket.send_text(text)
            # The latter is what is said of a connection that is known to be closed.
            except (WebSocketDisconnect, RuntimeError) as error:
                raise ClientLeft from error

    # The session

    async def _update(self, said: dict[str, Any]) -> None:
        fields.check_fields(said, ("type", "event_id", "session"), "`session.update`")
        session = fields.field(said, "session", "object", {})
        settings = updated(self._settings, session, self._service)
        if settings.detection != self._settings.detection:
            likelihood = None if settings.detection is None else await run_in_threadpool(silero)
            self._buffer.detect(settings.detection, likelihood)
        self._settings = settings
        shown = settings.shown(self._service, self._session_id)
        await self._tell({"type": "session.updated", "session": shown})

    # What is spoken

    async def _append(self, said: dict[str, Any]) -> None:
        fields.check_fields(said, ("type", "event_id", "audio"), "`input_audio_buffer.append`")
        sound = decoded_samples(said.get("audio"))
        if self._settings.detection is None:
            self._buffer.hear(sound)
            return
        for heard in await run_in_threadpool(self._buffer.hear, sound):
            await self._noticed(heard)

    async def _noticed(self, heard: Heard) -> None:
        detection = self._settings.detection
        assert detection is not None
        at_ms = heard.sample * 1000 // INPUT_RATE
        match heard:
            case Began():
                kind = "input_audio_buffer.speech_started"
                told = {"type": kind, "audio_start_ms": at_ms, "item_id": self._speaking_id}
                await self._tell(told)
                if detection.interrupt_response:
                    await self._interrupt("turn_detected")
            case Ended(sound=sound):
                kind = "input_audio_buffer.speech_stopped"
                told = {"type": kind, "audio_end_ms": at_ms, "item_id": self._speaking_id}
                await self._tell(told)
                await self._add_spoken(sound)
                if detection.create_response and self._is_free:
                    self._begin_answer({}, None)

    async def _commit(self, said: dict[str, Any]) -> None:
        fields.check_fields(said, ("type", "event_id"), "`input_audio_buffer.commit`")
        await self._add_spoken(self._buffer.take())

    async def _clear(self, said: dict[str, Any]) -> None:
        fields.check_fields(said, ("type", "event_id"), "`input_audio_buffer.clear`")
        self._buffer.clear()
        await self._tell({"type": "input_audio_buffer.cleared"})

    async def _add_spoken(self, sound: bytes) -> None:
        item = spoken_item(self._speaking_id, sound)
        self._speaking_id = _fresh("item")
        before = self._conversation.add(item)
        told = {"item_id": item.id, "previous_item_id": before}
        await self._tell({"type": "input_audio_buffer.committed", **told})
        await self._tell_added(item, before)

    # The conversation

    async def _create_item(self, said: dict[str, Any]) -> None:
        known = ("type", "event_id", "item", "previous_item_id")
        fields.check_fields(said, known, "`conversation.item.create`")
        item = read_item(said.get("item"), _fresh("item"))
        after = fields.field(said, "previous_item_id", "text")
        await self._tell_added(item, self._conversation.add(item, after))

    async def _tell_added(self, item: Item, before: str | None) -> None:
        for kind in ("conversation.item.added", "conversation.item.done"):
            await self._tell({"type": kind, "item": item.shown(), "previous_item_id": before})

    async def _retrieve_item(self, said: dict[str, Any]) -> None:
        item = self._named_item(said, ())
        await self._tell({"type": "conversation.item.retrieved", "item": item.shown()})

    async def _truncate_item(self, said: dict[str, Any]) -> None:
        """What was not heard of an answer is not in the conversation any more: none of its words,
        since nobody knows which belong to how much sound."""
        item = self._named_item(said, ("audio_end_ms", "content_index"))
        end_ms = fields.field(said, "audio_end_ms", "whole number", 0)
        if item.role != "assistant" or item.status == "in_progress":
            raise fields.wrong(f"`{item.id}` is no finished answer")
        item.given = []
        for part in item.content:
            part["transcript" if part["type"] == "output_audio" else "text"] = ""
        told = {"item_id": item.id, "content_index": 0, "audio_end_ms": end_ms}
        await self._tell({"type": "conversation.item.truncated", **told})

    async def _delete_item(self, said: dict[str, Any]) -> None:
        item = self._named_item(said, ())
        self._conversation.items.remove(item)
        await self._tell({"type": "conversation.item.deleted", "item_id": item.id})

    def _named_item(self, said: dict[str, Any], more: tuple[str, ...]) -> Item:
        fields.check_fields(said, ("type", "event_id", "item_id", *more), f"`{said['type']}`")
        return self._conversation.find(fields.field(said, "item_id", "text", ""))

    # Answers

    @property
    def _is_free(self) -> bool:
        return self._answering is None or self._answering.done()

    async def _create_response(self, said: dict[str, Any]) -> None:
        fields.check_fields(said, ("type", "event_id", "response"), "`response.create`")
        if not self._is_free:
            raise fields.wrong("an answer is being made", "cancel it, or wait for `response.done`")
        response = fields.field(said, "response", "object", {})
        self._begin_answer(response, said.get("event_id"))

    def _begin_answer(self, response: Mapping[str, Any], event_id: str | None) -> None:
        settings = for_answer(self._settings, response, self._service)
        abilities = self._service.abilities
        own = fields.field(response, "input", "list")
        items = self._conversation.items
        if own is not None:
            items = [read_item(item, _fresh("item")) for item in own]
        spoken = (item for item in reversed(items) if item.role == "user")
        is_kept = response.get("conversation", "auto") != "none"
        answer = self._answer = Answer(
            id=_fresh("resp"),
            item_id=_fresh("item"),
            service=self._service,
            settings=settings,
            given=given_of(items, abilities, settings.instructions),
            conversation=self._conversation if is_kept else None,
            conversation_id=self._conversation_id,
            heard_item=next((item for item in spoken if _has_sound(item)), None),
            metadata=fields.field(response, "metadata", "object"),
            tell=self._tell,
        )
        self._answering = asyncio.ensure_future(self._run(answer, event_id))

    async def _run(self, answer: Answer, event_id: str | None) -> None:
        self._service.talking += 1
        try:
            with suppress(ClientLeft):
                await self._run_told(answer, event_id)
        finally:
            self._service.talking -= 1

    async def _run_told(self, answer: Answer, event_id: str | None) -> None:
        try:
            await answer.run()
        except RuntimeFailure as failure:
            await self._tell_failure(failure, event_id)

    async def _cancel_response(self, said: dict[str, Any]) -> None:
        fields.check_fields(said, ("type", "event_id", "response_id"), "`response.cancel`")
        named = fields.field(said, "response_id", "text")
        if self._is_free or self._answer is None or named not in (None, self._answer.id):
            raise fields.wrong("there is no answer to cancel")
        await self._interrupt("client_cancelled")

    async def _interrupt(self, reason: Reason) -> None:
        """Ends the answer that is being made, if there is one."""
        answer, answering = self._answer, self._answering
        if answer is None or answering is None or answering.done():
            return
        answer.interrupted = reason
        answering.cancel()
        await asyncio.wait({answering})
        if answering.cancelled():
            await answer.interrupt()


def _has_sound(item: Item) -> bool:
    return any(part["type"] == "input_audio" for part in item.content)


def _fresh(kind: str) -> str:
    return f"{kind}_{uuid.uuid4().hex[:24]}"
