"""The items of a conversation, and what of them the plan is given.

A plan with turns reads the whole conversation. One without (`voice_chat`) hears what its user has
said since the last answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mstarc_runtime.server import body as fields
from mstarc_runtime.server.abilities import Abilities
from mstarc_runtime.server.inputs import Given
from mstarc_runtime.server.realtime.settings import INPUT_RATE
from mstarc_runtime.server.sound_formats import wav_header

_KINDS: Final = {
    "user": ("input_text", "input_audio", "input_image"),
    "system": ("input_text",),
    "assistant": ("output_text", "output_audio"),
}
_FIELDS: Final = {
    "input_text": ("type", "text"),
    "input_audio": ("type", "audio", "transcript"),
    "input_image": ("type", "image_url", "detail"),
    "output_text": ("type", "text"),
    "output_audio": ("type", "audio", "transcript"),
}


@dataclass(slots=True, kw_only=True, eq=False)
class Item:
    """A message. `content` is what clients see, `given` what a plan reads."""

    id: str
    role: str
    content: list[dict[str, Any]]
    given: list[Given]
    status: str = "completed"

    def shown(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "realtime.item",
            "type": "message",
            "status": self.status,
            "role": self.role,
            "content": self.content,
        }


@dataclass(slots=True, kw_only=True, eq=False)
class Conversation:
    """Items in order. `most_bytes` bounds what a plan would be given of them."""

    most_bytes: int
    items: list[Item] = field(default_factory=list)

    def add(self, item: Item, after: str | None = None) -> str | None:
        """Puts an item behind another one, or last; the id of the one before it.

        `after` may be `root`: in front. Fails with MS9217.
        """
        size = sum(_size(given) for one in (*self.items, item) for given in one.given)
        if size > self.most_bytes:
            raise fields.wrong(
                f"the conversation has more than {self.most_bytes / 1e6:.0f} MB",
                "delete items, or begin another session",
            )
        place = len(self.items)
        if after == "root":
            place = 0
        elif after is not None:
            place = self.items.index(self.find(after)) + 1
        if any(one.id == item.id for one in self.items):
            raise fields.wrong(f"there is an item `{item.id}` already")
        self.items.insert(place, item)
        return self.items[place - 1].id if place else None

    def find(self, name: str) -> Item:
        """Fails with MS9217."""
        for item in self.items:
            if item.id == name:
                return item
        raise fields.wrong(f"there is no item `{name}`")

    def given(self, abilities: Abilities, instructions: str) -> list[Given]:
        """What a plan is given of the conversation."""
        return given_of(self.items, abilities, instructions)


def given_of(items: Sequence[Item], abilities: Abilities, instructions: str) -> list[Given]:
    """What a plan is given of items."""
    if abilities.parts is not None:
        told = [Given(kind="text", content=instructions, role="system")] if instructions else []
        return [*told, *(given for item in items for given in item.given)]
    said: list[Given] = []
    for item in reversed(items):
        if item.role == "assistant":
            break
        said = [*item.given, *said]
    return said


def read_item(said: Any, fresh_id: str) -> Item:
    """A message that a client puts into a conversation. Fails with MS9217."""
    if not isinstance(said, dict):
        raise fields.wrong(f"`item` can't be {fields.shown(said)}", "it is an object")
    fields.check_fields(said, ("id", "object", "type", "status", "role", "content"), "`item`")
    fields.choice(said, "type", ("message",), "message")
    role = fields.choice(said, "role", tuple(_KINDS), "user")
    parts = fields.field(said, "content", "list", [])
    if not parts:
        raise fields.wrong("`content` of the item is empty")
    shown: list[dict[str, Any]] = []
    given: list[Given] = []
    for part in parts:
        if not isinstance(part, dict):
            raise fields.wrong(f"a part of the item can't be {fields.shown(part)}")
        kind = fields.choice(part, "type", _KINDS[role], _KINDS[role][0])
        fields.check_fields(part, _FIELDS[kind], f"a part `{kind}`")
        kept = {key: value for key, value in part.items() if key != "audio"}
        shown.append({**kept, "type": kind})
        given += _given(part, kind, role)
    item_id = fields.field(said, "id", "text", fresh_id)
    return Item(id=item_id, role=role, content=shown, given=given)


def spoken_item(name: str, sound: bytes) -> Item:
    """What a user has said: 16-bit samples at the session's rate."""
    content: list[dict[str, Any]] = [{"type": "input_audio", "transcript": None}]
    return Item(id=name, role="user", content=content, given=[_sound(sound)])


def _given(part: Mapping[str, Any], kind: str, role: str) -> list[Given]:
    if kind in ("input_text", "output_text"):
        text = fields.field(part, "text", "text")
        if text is None:
            raise fields.wrong(f"a part `{kind}` has no `text`")
        return [Given(kind="text", content=text, role=role)]
    if kind == "output_audio":
        heard = fields.field(part, "transcript", "text", "")
        return [Given(kind="text", content=heard, role=role)] if heard else []
    if kind == "input_image":
        content = fields.decoded(part.get("image_url"), "image_url")
        return [Given(kind="image", content=content)]
    return [_sound(decoded_samples(part.get("audio")))]


def decoded_samples(text: Any) -> bytes:
    """16-bit samples of base64. Fails with MS9217."""
    if not isinstance(text, str):
        raise fields.wrong(f"`audio` can't be {fields.shown(text)}", "it is base64")
    content = fields.decoded(text, "audio")
    if len(content) % 2:
        raise fields.wrong("`audio` is not whole samples", "a sample has 16 bits")
    return content


def _sound(samples: bytes) -> Given:
    head = wav_header(INPUT_RATE, len(samples) // 2)
    return Given(kind="audio", content=head + samples)


def _size(given: Given) -> int:
    return len(given.content)
