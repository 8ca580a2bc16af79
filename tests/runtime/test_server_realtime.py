"""The parts of live speech without a server: what is heard, and what a conversation holds."""

from collections.abc import Callable

import numpy as np
import pytest

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.loader import load_plan
from mstarc_runtime.server.abilities import Abilities, abilities_of
from mstarc_runtime.server.realtime.conversation import (
    Conversation,
    Item,
    read_item,
    spoken_item,
)
from mstarc_runtime.server.realtime.hearing import Began, Buffer, Ended
from mstarc_runtime.server.realtime.settings import Detection
from tests.support.golden import ROOT

RATE = 24000
LOOK = 768


def loud(samples: list[float]) -> float:
    """A detector: what is loud is speech."""
    return float(np.abs(samples).max() > 0.1)


def sound(*stretches: tuple[float, int]) -> bytes:
    """Stretches of (level, looks)."""
    levels = [np.full(looks * LOOK, level * 32767, "<i2") for level, looks in stretches]
    return b"".join(part.tobytes() for part in levels)


def listening(detection: Detection) -> Buffer:
    buffer = Buffer(60.0)
    buffer.detect(detection, loud)
    return buffer


@pytest.mark.parametrize("piece", [1000, LOOK * 50, 10**6])
def test_speech_is_found_however_it_comes_in_pieces(piece: int) -> None:
    detection = Detection(prefix_padding_ms=64, silence_duration_ms=320)
    buffer = listening(detection)
    said = sound((0.0, 20), (0.5, 10), (0.0, 5), (0.5, 5), (0.0, 30))
    pieces = [said[start : start + piece] for start in range(0, len(said), piece)]
    heard = [one for part in pieces for one in buffer.hear(part)]
    began, ended = heard
    assert isinstance(began, Began) and isinstance(ended, Ended)
    # The short pause is no end. Two looks of padding lie in front of speech.
    assert began.sample == 18 * LOOK
    assert ended.sample == 40 * LOOK
    assert len(ended.sound) // 2 == (40 - 18 + 10) * LOOK
    assert np.abs(np.frombuffer(ended.sound, "<i2")[2 * LOOK]) > 16000
    # What came behind it is kept, but for the padding.
    assert buffer.samples <= 2 * LOOK + 2 * LOOK + LOOK


def test_a_click_is_no_speech_and_silence_is_forgotten() -> None:
    buffer = listening(Detection(prefix_padding_ms=0))
    assert buffer.hear(sound((0.0, 50), (0.5, 1), (0.0, 100))) == []
    assert buffer.samples <= 3 * LOOK


def test_without_a_detector_everything_is_kept_until_it_is_taken() -> None:
    buffer = Buffer(1.0)
    content = sound((0.1, 5))
    assert buffer.hear(content) == []
    assert buffer.take() == content
    with pytest.raises(RuntimeFailure, match="MS9217"):
        buffer.take()
    with pytest.raises(RuntimeFailure, match="MS9219"):
        buffer.hear(bytes(2 * RATE + 2))
    buffer.hear(content)
    buffer.clear()
    assert buffer.samples == 0


# Conversations


def abilities(plan: str) -> Abilities:
    return abilities_of(load_plan(ROOT / "generated" / plan))


def said(role: str, text: str, item_id: str) -> Item:
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": text}]
    return read_item({"type": "message", "role": role, "content": content}, item_id)


def test_a_model_without_turns_hears_what_came_since_its_answer() -> None:
    conversation = Conversation(most_bytes=10_000)
    conversation.add(spoken_item("a", b"\0\0" * 10))
    conversation.add(said("assistant", "It is.", "b"))
    conversation.add(spoken_item("c", b"\1\0" * 20))
    (given,) = conversation.given(abilities("voice_chat"), "")
    assert given.kind == "audio" and len(given.content) == 44 + 40


def test_a_model_with_turns_is_given_all_of_them() -> None:
    conversation = Conversation(most_bytes=10_000)
    conversation.add(said("user", "What?", "a"))
    conversation.add(said("assistant", "That.", "c"))
    assert conversation.add(said("user", "Who?", "b"), "a") == "a"
    conversation.add(said("system", "Hear!", "0"), "root")
    given = conversation.given(abilities("qwen3_omni"), "Be brief.")
    assert [(one.role, one.content) for one in given] == [
        ("system", "Be brief."),
        ("system", "Hear!"),
        ("user", "What?"),
        ("user", "Who?"),
        ("assistant", "That."),
    ]


def test_a_conversation_has_a_bound_and_each_item_a_name_of_its_own() -> None:
    conversation = Conversation(most_bytes=100)
    conversation.add(said("user", "a" * 60, "a"))
    refused: list[Callable[[], object]] = [
        lambda: conversation.add(said("user", "b" * 60, "b")),
        lambda: conversation.add(said("user", "b", "a")),
        lambda: conversation.add(said("user", "b", "b"), "x"),
    ]
    for add in refused:
        with pytest.raises(RuntimeFailure, match="MS9217"):
            add()
    assert [item.id for item in conversation.items] == ["a"]
