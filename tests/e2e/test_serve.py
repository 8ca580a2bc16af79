"""A server as a real process: each route, whole and streamed, the same."""

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.support.omni_media import write_media
from tests.support.serving import ASKED, Server, error, events_of, input_audio, question

openai = pytest.importorskip("openai")


def client(server: Server) -> Any:
    return openai.OpenAI(base_url=f"{server.address}/v1", api_key="none", max_retries=0)


def samples_of(wav: bytes) -> np.ndarray[Any, Any]:
    return soundfile.read(io.BytesIO(wav), dtype="int16")[0]


def test_a_chat_is_the_same_whole_and_streamed(hello: Server) -> None:
    asked = {"model": "hello_stream", **ASKED}
    whole = client(hello).chat.completions.create(**asked)
    text = whole.choices[0].message.content
    assert text
    assert whole.usage.completion_tokens == len(text)
    assert whole.usage.prompt_tokens > 0
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + len(text)
    chunks = list(
        client(hello).chat.completions.create(
            **asked, stream=True, stream_options={"include_usage": True}
        )
    )
    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(pieces) == text
    assert chunks[-1].usage == whole.usage
    reasons = {chunk.choices[0].finish_reason for chunk in chunks if chunk.choices}
    assert whole.choices[0].finish_reason in reasons - {None}


def test_several_answers_have_seeds_of_their_own(hello: Server) -> None:
    asked = {"model": "hello_stream", **ASKED}
    (alone,) = client(hello).chat.completions.create(**asked).choices
    whole = client(hello).chat.completions.create(**asked, n=3).choices
    texts = [choice.message.content for choice in whole]
    assert texts[0] == alone.message.content
    assert len(set(texts)) > 1
    streamed = ["", "", ""]
    for chunk in client(hello).chat.completions.create(**asked, n=3, stream=True):
        streamed[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert streamed == texts


def test_a_chat_answers_with_sound_too(hello: Server) -> None:
    asked = {**ASKED, "modalities": ["text", "audio"], "audio": {"format": "wav"}}
    message = hello.post("/v1/chat/completions", **asked).json()["choices"][0]["message"]
    sound = samples_of(base64.b64decode(message["audio"]["data"]))
    assert len(sound) % 2048 == 0 and len(sound) > 0
    assert message["audio"]["transcript"] == message["content"]
    del asked["audio"]
    with hello.http.stream("POST", "/v1/chat/completions", json={**asked, "stream": True}) as made:
        events = events_of(made.iter_lines())
    assert events[-1] == "[DONE]"
    deltas = [event["choices"][0]["delta"] for event in events[:-1]]
    pieces = [delta["audio"].get("data", "") for delta in deltas if "audio" in delta]
    streamed = b"".join(base64.b64decode(piece) for piece in pieces)
    assert streamed == sound.astype("<i2").tobytes()


def test_speech_is_the_same_in_every_way_of_sending(hello: Server) -> None:
    asked = {"input": "hello", "seed": 3}
    whole = hello.post("/v1/audio/speech", **asked, stream=False)
    sound = samples_of(whole.content)
    assert len(sound) > 0
    streamed = hello.post("/v1/audio/speech", **asked)
    assert streamed.headers["content-type"] == "audio/wav"
    assert "content-length" not in streamed.headers
    assert streamed.content[44:] == whole.content[44:]
    made = client(hello).audio.speech.create(
        model="hello_stream",
        voice="default",
        input="hello",
        response_format="pcm",
        extra_body={"seed": 3},
    )
    assert made.read() == whole.content[44:]
    events = events_of(hello.post("/v1/audio/speech", **asked, stream_format="sse").iter_lines())
    assert events[-1] == {"type": "speech.audio.done"}
    assert b"".join(base64.b64decode(e["audio"]) for e in events[:-1]) == whole.content[44:]


@pytest.mark.parametrize("form", ["flac", "mp3", "opus"])
def test_speech_is_encoded_where_the_library_can(hello: Server, form: str) -> None:
    if form not in hello.http.get("/openapi.json").text:
        pytest.skip(f"this libsndfile can't write {form}")
    made = hello.post("/v1/audio/speech", input="hello", seed=3, response_format=form)
    wav = hello.post("/v1/audio/speech", input="hello", seed=3)
    decoded, rate = soundfile.read(io.BytesIO(made.content))
    assert rate in (24000, 48000)
    assert abs(len(decoded) / rate - (len(wav.content) - 44) / 48000) < 0.2


def test_generate_takes_and_gives_the_names_of_the_spec(hello: Server) -> None:
    asked = {"inputs": {"prompt": "hello"}, "options": {"max_tokens": 40}, "seed": 3}
    whole = hello.post("/generate", **asked).json()
    assert set(whole["outputs"]) == {"reply", "song"}
    events = events_of(hello.post("/generate", **asked, stream=True).iter_lines())
    assert events[-1] == "[DONE]"
    texts = [event["text"] for event in events[:-1] if "text" in event]
    assert "".join(texts) == whole["outputs"]["reply"]["text"]
    sounds = [base64.b64decode(event["audio"]) for event in events[:-1] if "audio" in event]
    wav = base64.b64decode(whole["outputs"]["song"]["data"])
    assert b"".join(sounds) == wav[44:]
    parts = hello.http.post("/generate", json=asked, headers={"accept": "multipart/mixed"})
    assert parts.headers["content-type"].startswith("multipart/mixed; boundary=")
    assert wav in parts.content
    alone = hello.post("/generate", **asked, wants=["reply"]).json()
    assert set(alone["outputs"]) == {"reply"}


def test_a_sound_is_written_down_and_answered(hearing: Server) -> None:
    heard = client(hearing).audio.transcriptions.create(
        model="voice_chat", file=("q.wav", question())
    )
    assert heard.text
    events = list(
        client(hearing).audio.transcriptions.create(
            model="voice_chat", file=("q.wav", question()), stream=True
        )
    )
    assert events[-1].text == heard.text
    answer = client(hearing).chat.completions.create(
        model="voice_chat",
        messages=[{"role": "user", "content": [input_audio()]}],
        max_tokens=20,
        modalities=["text", "audio"],
        audio={"voice": "default", "format": "wav"},
    )
    message = answer.choices[0].message
    assert message.content and message.audio.transcript == message.content
    assert len(samples_of(base64.b64decode(message.audio.data))) > 0


def test_parts_of_every_kind_are_taken_in_turns(seeing: Server, tmp_path: Path) -> None:
    write_media(tmp_path)

    def data(name: str, kind: str) -> dict[str, str]:
        content = base64.b64encode((tmp_path / name).read_bytes()).decode()
        return {"url": f"data:{kind};base64,{content}"}

    said = client(seeing).chat.completions.create(
        model="qwen3_omni",
        messages=[
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": data("wide.png", "image/png")},
                    {"type": "video_url", "video_url": data("film.mp4", "video/mp4")},
                    {"type": "text", "text": "What is this?"},
                ],
            },
            {"role": "assistant", "content": "A cat."},
            {"role": "user", "content": [input_audio()]},
        ],
        max_tokens=6,
        temperature=0.0,
    )
    assert said.choices[0].message.content
    sound = base64.b64encode((tmp_path / "short.wav").read_bytes()).decode()
    parts = ["What is this?", {"audio": {"data": sound}}, {"text": "So?", "role": "user"}]
    options = {"max_tokens": 6, "talker_max_tokens": 8}
    made = seeing.post("/generate", inputs={"parts": parts}, options=options, wants=["reply"])
    assert made.json()["outputs"]["reply"]["text"]


def test_a_broken_picture_ends_its_request_alone(seeing: Server) -> None:
    before = seeing.held()
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}}
    refused = seeing.post("/v1/chat/completions", messages=[{"role": "user", "content": [part]}])
    assert (refused.status_code, error(refused)["code"]) == (400, "MS9206")
    assert seeing.held() == before


# What there is


def test_the_model_says_what_it_takes_and_makes(hello: Server) -> None:
    (model,) = client(hello).models.list().data
    assert model.id == "hello_stream"
    found = hello.http.get("/v1/models/hello_stream").json()
    assert found["options"]["max_tokens"] == {
        "type": "integer",
        "default": 60,
        "minimum": 0,
        "maximum": 400,
    }
    assert "/v1/audio/transcriptions" not in found["routes"]
    document = hello.http.get("/openapi.json").json()
    asked = document["paths"]["/v1/chat/completions"]["post"]["requestBody"]["content"]
    schema = asked["application/json"]["schema"]
    assert schema["properties"]["max_tokens"] == found["options"]["max_tokens"]
    page = hello.http.get("/docs").text
    assert "POST /v1/audio/speech" in page
    assert "<script" not in page and "http://" not in page and "https://" not in page


def test_health_readiness_and_metrics_tell_the_truth(hello: Server) -> None:
    hello.post("/v1/audio/speech", input="hello", seed=3)
    assert hello.http.get("/health").json()["state"] == "ready"
    ready = hello.http.get("/ready")
    assert ready.status_code == 200
    assert [worker["answers"] for worker in ready.json()["workers"]] == [True, True]
    text = hello.http.get("/metrics").text
    sound = 'mstarc_audio_seconds_total{route="/v1/audio/speech"}'
    found = next(line for line in text.splitlines() if line.startswith(sound))
    assert float(found.split()[-1]) > 0
    assert 'mstarc_workers{state="answering"} 2.0' in text
    assert 'mstarc_kv_pages_used{node="lm",process="0"} 0.0' in text
