"""One answer of a session on its way: a request of the plan → events of its client.

`Answer.run` says that it begins, hands on texts and sounds as they come, and says how it ended:
completed, cancelled, incomplete (as long as it may be), or failed. What an interrupted answer has
said so far stays in the conversation.
"""

import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Literal

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.request import Asked, PreparedRequest
from mstarc_runtime.server.inputs import Given, prepared
from mstarc_runtime.server.live import Event, Live, Sound, Text
from mstarc_runtime.server.realtime.conversation import Conversation, Item
from mstarc_runtime.server.realtime.settings import Settings
from mstarc_runtime.server.refusals import error_of
from mstarc_runtime.server.service import Service
from mstarc_runtime.server.sound_formats import pcm

ROUTE = "/v1/realtime"
Tell = Callable[[Mapping[str, Any]], Awaitable[None]]
Reason = Literal["client_cancelled", "turn_detected"]


@dataclass(slots=True, kw_only=True, eq=False)
class Answer:
    """What is being said. `heard_item` is the user's, whose words the plan may write down."""

    id: str
    item_id: str
    service: Service
    settings: Settings
    given: Sequence[Given]
    conversation: Conversation | None
    conversation_id: str
    heard_item: Item | None
    metadata: Mapping[str, Any] | None
    tell: Tell
    interrupted: Reason | None = None
    has_begun: bool = False
    live: Live | None = None
    item: Item | None = None
    said: list[str] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)

    async def run(self) -> None:
        """Fails with what a request can't be read with, before it has begun."""
        request = await self._prepare()
        await self._tell("response.created", response=self._shown("in_progress"))
        self.has_begun = True
        try:
            # Between here and the loop nothing is awaited: what is taken is given back.
            self.live = self.service.submit(request, ROUTE)
            async with aclosing(self.service.events(self.live)) as events:
                async for made in events:
                    await self._made(made)
        except RuntimeFailure as failure:
            error = error_of(failure)
            await self._end("failed", {"type": "failed", "error": error})
            await self._tell("error", error=error)
            return
        most = request.options.get("max_tokens")
        reply = self.service.abilities.reply
        tokens = 0 if reply is None else self.live.tokens_of.get(reply.name, 0)
        if most is not None and tokens >= most:
            await self._end("incomplete", {"type": "incomplete", "reason": "max_output_tokens"})
        else:
            await self._end("completed", {"type": "completed"})

    async def interrupt(self) -> None:
        """Says that it was interrupted; `run` must have been cancelled."""
        if self.has_begun:
            await self._end("cancelled", {"type": "cancelled", "reason": self.interrupted})

    async def _prepare(self) -> PreparedRequest:
        abilities, settings = self.service.abilities, self.settings
        wanted = [abilities.reply, abilities.sound if settings.modality == "audio" else None]
        if settings.transcribes and self.heard_item is not None:
            wanted.append(abilities.transcript)
        options = dict(settings.options)
        if settings.voice is not None and "voice" in abilities.options:
            options["voice"] = settings.voice
        asked = Asked(
            options=options,
            wants=tuple(output.name for output in wanted if output is not None),
            seed=options.get("seed"),
        )
        return await prepared(self.service, asked, self.given)

    async def _made(self, made: Event) -> None:
        abilities = self.service.abilities
        if isinstance(made, Text) and abilities.transcript and self.settings.transcribes:
            if made.output == abilities.transcript.name:
                await self._heard(made.piece)
                return
            await self._finish_heard()
        if self.item is None:
            await self._begin()
        if isinstance(made, Text):
            self.said.append(made.piece)
            is_spoken = self.settings.modality == "audio"
            kind = "output_audio_transcript" if is_spoken else "output_text"
            await self._tell_part(f"response.{kind}.delta", delta=made.piece)
        elif isinstance(made, Sound):
            data = base64.b64encode(pcm(made.samples)).decode()
            await self._tell_part("response.output_audio.delta", delta=data)

    async def _begin(self) -> None:
        self.item = Item(
            id=self.item_id, role="assistant", content=[], given=[], status="in_progress"
        )
        await self._tell_output("response.output_item.added", item=self.item.shown())
        if self.conversation is not None:
            before = self.conversation.add(self.item)
            shown = self.item.shown()
            await self._tell("conversation.item.added", item=shown, previous_item_id=before)
        await self._tell_part("response.content_part.added", part=self._part())

    async def _end(self, status: str, details: Mapping[str, Any]) -> None:
        await self._finish_heard()
        if self.item is not None:
            await self._end_item(self.item, status)
        await self._tell("response.done", response=self._shown(status, details))

    async def _end_item(self, item: Item, status: str) -> None:
        text = "".join(self.said)
        if self.settings.modality == "audio":
            await self._tell_part("response.output_audio.done")
            await self._tell_part("response.output_audio_transcript.done", transcript=text)
            item.content = [{"type": "output_audio", "transcript": text}]
        else:
            await self._tell_part("response.output_text.done", text=text)
            item.content = [{"type": "output_text", "text": text}]
        item.given = [Given(kind="text", content=text, role="assistant")] if text else []
        item.status = "completed" if status == "completed" else "incomplete"
        await self._tell_part("response.content_part.done", part=self._part())
        await self._tell_output("response.output_item.done", item=item.shown())
        if self.conversation is not None:
            await self._tell("conversation.item.done", item=item.shown())

    async def _heard(self, piece: str) -> None:
        assert self.heard_item is not None
        self.heard.append(piece)
        name = "conversation.item.input_audio_transcription.delta"
        await self._tell(name, item_id=self.heard_item.id, content_index=0, delta=piece)

    async def _finish_heard(self) -> None:
        """The user's words are whole as soon as something else is said, or nothing any more."""
        if not self.heard or self.heard_item is None:
            return
        text = "".join(self.heard).strip()
        self.heard.clear()
        for part in self.heard_item.content:
            if part["type"] == "input_audio":
                part["transcript"] = text
        name = "conversation.item.input_audio_transcription.completed"
        await self._tell(name, item_id=self.heard_item.id, content_index=0, transcript=text)

    def _part(self) -> dict[str, Any]:
        text = "".join(self.said)
        is_spoken = self.settings.modality == "audio"
        return (
            {"type": "audio", "transcript": text} if is_spoken else {"type": "text", "text": text}
        )

    def _shown(self, status: str, details: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The response as its client sees it."""
        is_over = status != "in_progress"
        return {
            "id": self.id,
            "object": "realtime.response",
            "status": status,
            "status_details": details,
            "output": [] if self.item is None else [self.item.shown()],
            "output_modalities": [self.settings.modality],
            "conversation_id": None if self.conversation is None else self.conversation_id,
            "max_output_tokens": self.settings.options.get("max_tokens", "inf"),
            "metadata": self.metadata,
            "usage": self._usage() if is_over else None,
        }

    def _usage(self) -> dict[str, int]:
        reply = self.service.abilities.reply
        if self.live is None or reply is None:
            return {"output_tokens": 0}
        made, read = self.live.tokens_of.get(reply.name, 0), self.live.read.get(reply.name)
        if read is None:
            return {"output_tokens": made}
        return {"input_tokens": read, "output_tokens": made, "total_tokens": read + made}

    async def _tell(self, kind: str, **said: Any) -> None:
        await self.tell({"type": kind, **said})

    async def _tell_output(self, kind: str, **said: Any) -> None:
        await self._tell(kind, response_id=self.id, output_index=0, **said)

    async def _tell_part(self, kind: str, **said: Any) -> None:
        where = {"response_id": self.id, "item_id": self.item_id}
        await self._tell(kind, **where, output_index=0, content_index=0, **said)
