"""Servers are asked as OpenAI's are, and what they say is timed as it comes."""

import json
from pathlib import Path
from typing import Any

import pytest

from mstarc_runtime.bench.http_service import HttpService, Sound
from mstarc_runtime.bench.job import Extent, Job, Kind, Load, Target
from mstarc_runtime.bench.load import run_load
from mstarc_runtime.bench.record import Record
from mstarc_runtime.errors import RuntimeFailure
from tests.support.fake_server import CHUNK_SAMPLES, RATE, fake_server, wav_header

CHUNK_S = CHUNK_SAMPLES / RATE


def ask(
    options: dict[str, Any], *, api: str = "speech", model: str = "m", file: str | None = None
) -> tuple[list[Record], list[tuple[str, dict[str, Any]]]]:
    """Two requests' records, and what the server was asked."""
    with fake_server() as server:
        target = Target(name="fake", url=server.url, api=api, model=model)
        load = Load(kind="waves", size=2)
        job = Job(targets=(target,), loads=(load,), kinds=(Kind(options=options),), file=file)
        service = HttpService(target, job)
        service.check()
        records = run_load(service, load, Extent(count=2, warm_up=0), seed=0)
        return records, server.asked


@pytest.mark.parametrize(
    "options", [{}, {"response_format": "pcm"}, {"stream_format": "sse", "response_format": "pcm2"}]
)
def test_speech_is_as_long_as_it_sounds_however_it_is_sent(options: dict[str, Any]) -> None:
    records, asked = ask({"max_tokens": 5, **options})
    for record in records:
        assert record.error == ""
        assert record.sound_s == pytest.approx(5 * CHUNK_S)
        assert record.first_output_s is not None
        assert record.ended_s is not None
        assert 0 <= record.begun_s <= record.first_output_s <= record.ended_s
    (path, body), _ = asked
    assert path == "/v1/audio/speech"
    assert body["stream"] is True
    assert body["max_tokens"] == 5
    assert body["input"].endswith(".")


def test_a_chat_is_read_piece_by_piece_and_the_server_counts_its_tokens() -> None:
    records, asked = ask({"max_tokens": 4}, api="chat")
    assert [record.tokens for record in records] == [4, 4]
    assert all(len(record.texts) == 4 for record in records)
    (path, body), _ = asked
    assert path == "/v1/chat/completions"
    assert body["stream_options"] == {"include_usage": True}


def test_a_refusal_is_an_error_of_its_request() -> None:
    records, _ = ask({}, model="unknown")
    assert all("HTTP 404" in r.error and "no such model" in r.error for r in records)
    assert all(record.ended_s is not None for record in records)


def test_requests_of_a_file_take_turns(tmp_path: Path) -> None:
    file = tmp_path / "requests.json"
    entries = [{"inputs": {"prompt": text}, "options": {"max_tokens": 1}} for text in ("a", "b")]
    file.write_text(json.dumps(entries))
    _, asked = ask({}, file=str(file))
    assert sorted(body["input"] for _, body in asked) == ["a", "b"]


def test_a_server_that_is_not_there_is_said_before_anything_is_measured() -> None:
    target = Target(name="gone", url="http://127.0.0.1:9")
    service = HttpService(target, Job(targets=(target,), loads=()))
    with pytest.raises(RuntimeFailure, match="no server answers at") as caught:
        service.check()
    assert caught.value.code == "MS9014"


@pytest.mark.parametrize("cut", [1, 3, 13, 43, 44, 100])
def test_a_header_may_come_in_pieces(cut: int) -> None:
    data = wav_header(8000) + bytes(2 * 800)
    sound = Sound(24_000)
    seconds = [sound.seconds(data[at : at + cut]) for at in range(0, len(data), cut)]
    assert sum(seconds) == pytest.approx(0.1)
