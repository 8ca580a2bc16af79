"""The parts of a server without processes: what an answer holds, what plans can do, sounds."""

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import uvicorn

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.loader import load_plan
from mstarc_runtime.server import command
from mstarc_runtime.server.abilities import abilities_of
from mstarc_runtime.server.body import decoded, read_object
from mstarc_runtime.server.live import Event, Live, Sound, Text, Value
from mstarc_runtime.server.ranks_thread import RanksThread, State
from mstarc_runtime.server.sound_formats import encoded, pcm
from tests.support.golden import ROOT

CHAT, SPEECH, HEARD = "/v1/chat/completions", "/v1/audio/speech", "/v1/audio/transcriptions"
LIVE = "/v1/realtime"
DRAWN, REDRAWN = "/v1/images/generations", "/v1/images/edits"


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 10))


def live_of(most_bytes: int = 1000) -> tuple[Live, list[str]]:
    """A request of this thread's loop; the list has what it was heard to say."""
    said: list[str] = []
    live = Live(
        asyncio.get_running_loop(),
        most_bytes=most_bytes,
        give_up=lambda _: said.append("give up"),
        on_over=lambda _: said.append("over"),
    )
    return live, said


async def all_of(live: Live) -> list[Event]:
    found: list[Event] = []
    while events := await live.take():
        for event in events:
            live.took(event)
        found += events
    return found


def test_what_waits_is_joined_by_output() -> None:
    async def work() -> None:
        live, said = live_of()
        live.text("reply", "a")
        live.text("reply", "b")
        live.sound("song", np.ones(2, np.float32), 8000)
        live.sound("song", np.zeros(1, np.float32), 8000)
        live.text("heard", "c")
        live.value("picture", np.zeros((3, 1, 1), np.uint8))
        live.finished()
        first, second, third, fourth = await all_of(live)
        assert first == Text(output="reply", piece="ab")
        assert isinstance(second, Sound) and second.samples.tolist() == [1, 1, 0]
        assert third == Text(output="heard", piece="c")
        assert isinstance(fourth, Value) and fourth.array.dtype == np.uint8
        assert said == ["over"]

    run(work())


def test_an_answer_that_nobody_takes_ends_at_its_bound() -> None:
    async def work() -> None:
        live, said = live_of(most_bytes=10)
        live.text("reply", "123456")
        live.text("reply", "123456")
        live.text("reply", "more")
        assert said == ["give up"]
        live.cancelled()
        with pytest.raises(RuntimeFailure) as caught:
            await all_of(live)
        assert caught.value.code == "MS9313"

    run(work())


def test_an_answer_that_is_taken_has_no_bound() -> None:
    async def work() -> None:
        live, said = live_of(most_bytes=10)
        for number in range(5):
            live.text("reply", f"{number} 3456")
            (event,) = await live.take()
            assert event == Text(output="reply", piece=f"{number} 3456")
            live.took(event)
        live.failed(RuntimeFailure("MS9304", "a step failed"))
        with pytest.raises(RuntimeFailure, match="MS9304"):
            await live.take()
        while not live.is_over:
            await asyncio.sleep(0)
        assert said == ["over"]

    run(work())


@pytest.mark.parametrize(
    ("plan", "routes"),
    [
        ("voice_chat", (CHAT, HEARD, LIVE)),
        ("orpheus_tiny", (SPEECH,)),
        ("qwen3_omni", (CHAT, SPEECH, LIVE)),
        ("bagel", (CHAT, DRAWN, REDRAWN)),
        ("pi05", ()),
        ("vjepa2", ()),
    ],
)
def test_a_plan_serves_the_routes_that_its_inputs_and_outputs_are_for(
    plan: str, routes: tuple[str, ...]
) -> None:
    able = abilities_of(load_plan(ROOT / "generated" / plan))
    assert able.routes == (*routes, "/generate")


def test_ranks_that_do_not_start_fail_what_was_asked() -> None:
    def launch() -> Any:
        raise RuntimeFailure("MS9302", "rank 0 ended")

    states: list[State] = []
    failures: list[RuntimeFailure] = []
    thread = RanksThread(launch, on_change=states.append)
    thread.call(lambda conductor: None, failures.append)
    thread.start()
    thread.stop()
    thread.call(lambda conductor: None, failures.append)
    assert states == ["ended"]
    assert [failure.code for failure in failures] == ["MS9302", "MS9302"]


@pytest.mark.parametrize(
    "text", ["data:audio/wav,aGk=", "http://host/a.wav", "file:///etc/passwd", "a path", "aGk"]
)
def test_only_content_is_taken_for_content(text: str) -> None:
    with pytest.raises(RuntimeFailure) as caught:
        decoded(text, "sound")
    assert caught.value.code == "MS9217"
    assert decoded("data:audio/wav;base64,aGk=", "sound") == decoded("aGk=", "sound") == b"hi"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        rb'{"a": "\ud800"}',
        rb'{"\uDFFF": 1}',
        b'{"a": Infinity}',
        b"\xff",
        b"{" * 9,
        b"[" * 99999,
    ],
)
def test_a_body_is_one_json_object(content: bytes) -> None:
    with pytest.raises(RuntimeFailure) as caught:
        read_object(content)
    assert caught.value.code == "MS9217"


def test_a_character_may_be_written_in_two_halves() -> None:
    assert read_object(rb'{"a": "\ud83d\ude00"}') == {"a": "\N{GRINNING FACE}"}


def test_a_live_answer_ends_before_its_connection_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[str] = []

    async def shutdown(self: uvicorn.Server, sockets: Any = None) -> None:
        closed.append("closed")

    monkeypatch.setattr(uvicorn.Server, "shutdown", shutdown)
    server = command._Server(uvicorn.Config("none", timeout_graceful_shutdown=30))
    speaking: Any = SimpleNamespace(talking=1)
    server.service = speaking

    async def work() -> None:
        ending = asyncio.create_task(server.shutdown())
        await asyncio.sleep(0)
        assert closed == []
        speaking.talking = 0
        await ending

    run(work())
    assert closed == ["closed"]


def test_a_sound_without_samples_is_a_whole_file() -> None:
    assert len(encoded([], 24000, "wav")) == 44
    assert pcm(np.array([2.0, -2.0, 0.0], np.float32)) == b"\xff\x7f\x01\x80\x00\x00"
