"""Events of realtime clients, with odd values where others belong."""

import base64
from random import Random
from typing import Any

_SOUND = base64.b64encode(bytes(4800)).decode()
_SPOKEN = {"type": "input_audio", "audio": _SOUND}
_SESSION = {
    "type": "realtime",
    "instructions": "",
    "output_modalities": ["audio"],
    "audio": {
        "input": {
            "format": {"type": "audio/pcm", "rate": 24000},
            "transcription": {"model": "voice_chat"},
            "turn_detection": {"type": "server_vad", "threshold": 0.5, "create_response": True},
        },
        "output": {"voice": "default", "speed": 1.0},
    },
    "max_output_tokens": 20,
    "options": {"seed": 3},
}
EVENTS: list[dict[str, Any]] = [
    {"type": "session.update", "session": _SESSION},
    {"type": "input_audio_buffer.append", "audio": _SOUND},
    {"type": "input_audio_buffer.commit"},
    {
        "type": "conversation.item.create",
        "previous_item_id": "root",
        "item": {"id": "a", "type": "message", "role": "user", "content": [_SPOKEN]},
    },
    {
        "type": "conversation.item.create",
        "item": {"role": "assistant", "content": [{"type": "output_text", "text": "hi"}]},
    },
    {"type": "conversation.item.retrieve", "item_id": "a"},
    {"type": "conversation.item.truncate", "item_id": "a", "content_index": 0, "audio_end_ms": 1},
    {"type": "conversation.item.delete", "item_id": "a"},
    {
        "type": "response.create",
        "response": {
            "conversation": "none",
            "input": [{"type": "message", "role": "user", "content": [_SPOKEN]}],
            "output_modalities": ["text"],
            "max_output_tokens": 3,
            "metadata": {"a": "b"},
        },
    },
    {"type": "response.create"},
    {"type": "response.cancel"},
]
_ODD: list[Any] = [
    *(None, True, 0, -1, 3.5, 1e308, 10**30, "", "a", "\ud800", [], [1], {}, {"type": "x"}, [[]]),
    *([None], "server_vad", _SOUND),
]


def odd(random: Random, value: Any, share: float) -> Any:
    """The value, with a share of what is in it exchanged or left out."""
    if random.random() < share:
        return random.choice(_ODD)
    if isinstance(value, dict):
        kept = {key: odd(random, inside, share) for key, inside in value.items()}
        if kept and random.random() < share:
            kept.pop(random.choice(list(kept)))
        return kept
    return [odd(random, inside, share) for inside in value] if isinstance(value, list) else value
