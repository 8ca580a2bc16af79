"""Servers as real processes: each route whole and streamed, and what goes wrong."""

import base64
import io
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile

from tests.support.golden import ROOT
from tests.support.omni_media import write_media
from tests.support.serving import Server, compiled, events_of, serving

openai = pytest.importorskip("openai")

HELLO = ("examples/hello_stream/hello_stream.mstar", "examples/hello_stream/sizes.yaml")
ORPHEUS = ("specs/orpheus.mstar", "specs/tiny/orpheus.yaml")
TWO_AT_ONCE = """
model: orpheus
devices: 2xcpu
max_seq_len: 2048
max_concurrent_requests: 2
node_groups:
  - {node_names: [frontend, LLM], ranks: [0]}
  - {node_names: [snac_decoder], ranks: [1]}
"""
ASKED = {"messages": [{"role": "user", "content": "hello"}], "seed": 3, "max_tokens": 40}
LONG = {"input": "hello", "max_tokens": 1500, "seed": 1}


@pytest.fixture(scope="module")
def hello(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("hello")
    plan = compiled(folder, *HELLO, "2xcpu")
    with serving(plan, "--placement", "2xcpu", "--max-body-mb", "1") as server:
        yield server


@pytest.fixture(scope="module")
def hearing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """`voice_chat`: a sound in, a transcript, a reply and speech out."""
    folder = tmp_path_factory.mktemp("voice")
    plan = compiled(folder, "specs/voice_chat.mstar", "specs/tiny/voice_chat.yaml", "cpu")
    with serving(plan) as server:
        yield server


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Qwen3-Omni: parts of every kind in."""
    folder = tmp_path_factory.mktemp("omni")
    plan = compiled(folder, "specs/qwen3_omni.mstar", "specs/tiny/qwen3_omni.yaml", "cpu")
    with serving(plan) as server:
        yield server


@pytest.fixture(scope="module")
def two_at_once_plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    return compiled(folder, *ORPHEUS, deployments={"two": TWO_AT_ONCE})


@pytest.fixture(scope="module")
def speaking(two_at_once_plan: Path) -> Iterator[Server]:
    """Orpheus on two ranks, two requests at once and one that waits."""
    with serving(two_at_once_plan, "--placement", "two", "--queue", "1") as server:
        yield server


def client(server: Server) -> Any:
    return openai.OpenAI(base_url=f"{server.address}/v1", api_key="none", max_retries=0)


def error(response: httpx.Response) -> dict[str, Any]:
    found: dict[str, Any] = response.json()["error"]
    return found


def question() -> bytes:
    return (ROOT / "examples" / "question.wav").read_bytes()


def input_audio() -> dict[str, Any]:
    data = base64.b64encode(question()).decode()
    return {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}


def samples_of(wav: bytes) -> np.ndarray[Any, Any]:
    return soundfile.read(io.BytesIO(wav), dtype="int16")[0]


# Routes


def test_a_chat_is_the_same_whole_and_streamed(hello: Server) -> None:
    asked = {"model": "hello_stream", **ASKED}
    whole = client(hello).chat.completions.create(**asked)
    text = whole.choices[0].message.content
    assert text
    assert whole.usage.completion_tokens == len(text)
    chunks = list(
        client(hello).chat.completions.create(
            **asked, stream=True, stream_options={"include_usage": True}
        )
    )
    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(pieces) == text
    assert chunks[-1].usage.completion_tokens == len(text)
    reasons = {chunk.choices[0].finish_reason for chunk in chunks if chunk.choices}
    assert whole.choices[0].finish_reason in reasons - {None}


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


# What is refused

BAD: list[tuple[str, Any, int, str, str]] = [
    ("/v1/chat/completions", b"{", 400, "MS9217", "not JSON"),
    ("/v1/chat/completions", b"\xff", 400, "MS9217", "UTF-8"),
    ("/v1/chat/completions", b'{"seed": NaN}', 400, "MS9217", "NaN"),
    ("/v1/chat/completions", b"[" * 100_000, 400, "MS9217", "too deeply"),
    ("/v1/chat/completions", {**ASKED, "max_tokenz": 3}, 400, "MS9217", "mean `max_tokens`"),
    ("/v1/chat/completions", {**ASKED, "max_tokens": 401}, 400, "MS9213", "0 .. 400"),
    ("/v1/chat/completions", {**ASKED, "max_tokens": "40"}, 400, "MS9213", "option of `int`"),
    ("/v1/chat/completions", {**ASKED, "model": "hallo_stream"}, 404, "MS9218", "hello_stream"),
    ("/v1/chat/completions", {**ASKED, "n": 2}, 400, "MS9217", "`n` is 1"),
    ("/v1/chat/completions", {"messages": []}, 400, "MS9217", "no `messages`"),
    ("/v1/chat/completions", {"messages": [3]}, 400, "MS9217", "message 0"),
    (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": [input_audio()]}]},
        400,
        "MS9217",
        "takes no audio",
    ),
    (
        "/v1/chat/completions",
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}],
                }
            ]
        },
        400,
        "MS9217",
        "nothing is fetched",
    ),
    ("/v1/audio/speech", {"input": "hi", "response_format": "aac"}, 400, "MS9217", "`wav`"),
    ("/v1/audio/speech", {"input": "hi", "voice": "ada"}, 400, "MS9217", "one voice"),
    ("/v1/audio/speech", {}, 400, "MS9217", "no `input`"),
    ("/v1/audio/transcriptions", {}, 404, "MS9218", "`/v1/audio/speech`"),
    ("/generate", {"inputs": {"promt": "hi"}}, 400, "MS9217", "did you mean `prompt`"),
    ("/generate", {"inputs": {}}, 400, "MS9211", "no input `prompt`"),
    ("/generate", {"inputs": {"prompt": {"file": "/etc/passwd"}}}, 400, "MS9217", "a text"),
    ("/generate", {"inputs": {"prompt": "hi"}, "wants": ["sing"]}, 400, "MS9215", "`song`"),
    (
        "/generate",
        {"inputs": {"prompt": "hi"}, "options": {"sed": 1}},
        400,
        "MS9212",
        "did you mean `seed`",
    ),
]


@pytest.mark.parametrize(("path", "content", "status", "code", "said"), BAD)
def test_what_can_not_be_done_is_said(
    hello: Server, path: str, content: Any, status: int, code: str, said: str
) -> None:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    refused = hello.http.post(path, content=raw)
    assert (refused.status_code, error(refused)["code"]) == (status, code)
    assert said in error(refused)["message"]


def test_an_unknown_path_is_told_the_nearest(hello: Server) -> None:
    refused = hello.post("/v1/chat/completion")
    assert refused.status_code == 404
    assert "`/v1/chat/completions`" in error(refused)["message"]
    assert hello.http.get("/generate").status_code == 405


def test_a_sound_that_is_none_is_refused(hearing: Server) -> None:
    refused = hearing.http.post("/v1/audio/transcriptions", files={"file": b"no sound"})
    assert (refused.status_code, error(refused)["code"]) == (400, "MS9202")
    refused = hearing.http.post("/v1/audio/transcriptions", data={"file": "../../etc/passwd"})
    assert refused.status_code == 400
    cut = hearing.http.post(
        "/v1/audio/transcriptions",
        content=b'--x\r\nContent-Disposition: form-data; name="file"',
        headers={"content-type": "multipart/form-data; boundary=x"},
    )
    assert cut.status_code == 400


# Limits, clients that leave, workers that die, the end


def test_a_full_queue_answers_429_and_what_leaves_makes_room(speaking: Server) -> None:
    before = speaking.held()
    with ExitStack() as held:
        for _ in range(3):
            held.enter_context(mute(speaking, LONG))
        refused = speaking.post("/v1/audio/speech", **LONG)
        assert (refused.status_code, error(refused)["code"]) == (429, "MS9310")
        assert int(refused.headers["retry-after"]) >= 1
        text = speaking.http.get("/metrics").text
        assert "mstarc_requests_running 2.0" in text
        assert "mstarc_requests_waiting 1.0" in text
    assert speaking.held() == before
    assert 'outcome="cancelled",route="/v1/audio/speech"} 3.0' in speaking.http.get("/metrics").text
    short = {"input": "hello", "max_tokens": 60, "seed": 1}
    assert speaking.post("/v1/audio/speech", **short).status_code == 200


def test_a_client_that_leaves_frees_what_its_request_holds(speaking: Server) -> None:
    before = speaking.held()
    short = {"input": "hello", "max_tokens": 60, "seed": 1}
    alone = speaking.post("/v1/audio/speech", **short).content
    for chunks in (0, 1, 3):
        with listening(speaking, LONG) as made:
            pieces = made.iter_raw()
            for _ in range(chunks):
                next(pieces)
            # A neighbour's bytes do not change.
            assert speaking.post("/v1/audio/speech", **short).content == alone
        assert speaking.held() == before
    # One that waits for a whole answer and leaves.
    with pytest.raises(httpx.ReadTimeout):
        speaking.http.post("/v1/audio/speech", json={**LONG, "stream": False}, timeout=0.5)
    assert speaking.held() == before
    assert speaking.http.get("/ready").status_code == 200


def test_a_body_that_is_too_large_is_not_read(hello: Server) -> None:
    refused = hello.post("/v1/audio/speech", input="a" * 1_100_000)
    assert refused.status_code == 413

    def pieces() -> Iterator[bytes]:
        for _ in range(40):
            yield b" " * 100_000

    # Without a length in its head.
    refused = hello.http.post("/v1/audio/speech", content=pieces())
    assert refused.status_code == 413
    assert hello.post("/v1/audio/speech", input="hi", max_tokens=40).status_code == 200


def test_a_lost_worker_ends_requests_and_health_says_so(two_at_once_plan: Path) -> None:
    with (
        serving(two_at_once_plan, "--placement", "two") as server,
        listening(server, {**LONG, "stream_format": "sse"}) as told,
        listening(server, LONG) as cut,
    ):
        lines, pieces = told.iter_lines(), cut.iter_raw()
        next(lines), next(pieces)
        os.kill(server.workers()[0], signal.SIGKILL)
        events = events_of(lines)
        assert events[-1]["error"]["code"] == "MS9301"
        assert "[DONE]" not in events
        # Nobody takes for whole what is not.
        with pytest.raises(httpx.RemoteProtocolError):
            list(pieces)
        refused = server.post("/v1/audio/speech", **LONG)
        assert (refused.status_code, error(refused)["code"]) == (503, "MS9301")
        assert server.http.get("/health").status_code == 503
        assert server.http.get("/ready").status_code == 503
        assert server.end() == 2


def test_it_listens_while_weights_load_and_lets_requests_end_on_sigterm(
    two_at_once_plan: Path,
) -> None:
    server = Server(two_at_once_plan, "--placement", "two")
    asked = {"input": "hello", "max_tokens": 400, "seed": 1}
    try:
        refused = server.post("/v1/audio/speech", **asked)
        assert (refused.status_code, error(refused)["code"]) == (503, "MS9314")
        assert "retry-after" in refused.headers
        assert server.http.get("/health").status_code == 200
        assert server.http.get("/ready").status_code == 503
        server.wait_for("at most .* at once")
        assert server.http.get("/ready").status_code == 200
        whole = server.post("/v1/audio/speech", **asked).content
        workers = server.workers()
        with listening(server, asked) as made:
            server.process.send_signal(signal.SIGTERM)
            server.wait_for("ending: 1 requests go on")
            assert b"".join(made.iter_raw()) == whole
        assert server.process.wait(60) == 0
        assert len(workers) == 2
        assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
    finally:
        server.close()


def test_an_address_that_is_taken_is_said(two_at_once_plan: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with pytest.raises(AssertionError, match="MS9312"):
            Server(two_at_once_plan, "--placement", "two", "--port", port)


def test_a_client_that_reads_nothing_slows_nobody(hello: Server) -> None:
    """Its connection is full, its answer waits; another one is answered meanwhile."""
    with mute(hello, {"input": "hello", "seed": 3, "max_tokens": 400}):
        assert hello.post("/v1/chat/completions", **ASKED).status_code == 200
    assert hello.held()["conductor"]["requests"] == 0


@contextmanager
def listening(server: Server, asked: dict[str, Any]) -> Iterator[httpx.Response]:
    """An answer that has begun, to a client of its own: at the end it leaves."""
    with httpx.Client(base_url=server.address, timeout=60) as http:
        request = http.build_request("POST", "/v1/audio/speech", json=asked)
        answer = http.send(request, stream=True)
        try:
            yield answer
        finally:
            answer.close()


@contextmanager
def mute(server: Server, asked: dict[str, Any]) -> Iterator[None]:
    """A client that asks and reads nothing; its request has been taken. At the end it leaves."""
    taken = server.http.get("/ready").json()["requests"]
    host, port = server.address.removeprefix("http://").split(":")
    body = json.dumps(asked).encode()
    head = f"POST /v1/audio/speech HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(head.encode() + body)
        while server.http.get("/ready").json()["requests"] <= taken:
            time.sleep(0.01)
        yield
