"""Drives every route of a server that OpenAI's client has, whole and streamed, and checks answers.

    mstarc serve build/voice_chat --placement cpu &
    python benchmarks/openai_routes.py http://127.0.0.1:8000 --json

What a server can is read from `/v1/models`. Each line: the route, how it was asked, seconds to the
first output and to the end, and what came. Exit status 1 if an answer was not as it must be.
"""

import argparse
import base64
import io
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import soundfile
from openai import OpenAI

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SAID = "Why is the sky blue?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One request, and how it went."""

    route: str
    asked: str
    first_s: float
    whole_s: float
    came: str
    is_right: bool


class Stopwatch:
    """From its making: when something first came."""

    def __init__(self) -> None:
        self._began_s = time.perf_counter()
        self.first_s = 0.0

    def came(self) -> None:
        self.first_s = self.first_s or self.now_s

    @property
    def now_s(self) -> float:
        return time.perf_counter() - self._began_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is asked. `model` is as the server tells of it."""

    client: OpenAI
    model: Any
    tokens: int


Made = tuple[str, bool]
Ask = Callable[[Stopwatch], Made]


def main() -> int:
    parser = argparse.ArgumentParser(description="Drive every route of a server.")
    parser.add_argument("address", nargs="?", default="http://127.0.0.1:8000")
    parser.add_argument("--key", default="none")
    parser.add_argument("--max-tokens", type=int, default=48)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    client = OpenAI(base_url=f"{options.address}/v1", api_key=options.key, max_retries=0)
    model = client.models.list().data[0]
    target = Target(client=client, model=model, tokens=options.max_tokens)
    rows = []
    for route, asked, ask in requests(target):
        watch = Stopwatch()
        came, is_right = ask(watch)
        watch.came()
        row = Row(
            route=route,
            asked=asked,
            first_s=round(watch.first_s, 3),
            whole_s=round(watch.now_s, 3),
            came=came,
            is_right=is_right,
        )
        rows.append(row)
        if not options.json:
            mark = "" if row.is_right else "WRONG "
            print(f"{route:26} {asked:16} {row.first_s:7.2f} {row.whole_s:7.2f}  {mark}{came}")
    if options.json:
        print(json.dumps({"model": model.id, "rows": [asdict(row) for row in rows]}))
    return 0 if all(row.is_right for row in rows) else 1


def requests(at: Target) -> Iterator[tuple[str, str, Ask]]:
    """(route, how, what asks) of all that the model can."""
    drives: dict[str, Callable[[Target], Iterator[tuple[str, Ask]]]] = {
        "/v1/chat/completions": chats,
        "/v1/audio/speech": speeches,
        "/v1/audio/transcriptions": transcriptions,
        "/v1/images/generations": drawings,
        "/v1/images/edits": edits,
        "/v1/realtime": conversations,
    }
    yield "/v1/models", "one", lambda _: (at.client.models.retrieve(at.model.id).id, True)
    for route, drive in drives.items():
        if route in at.model.routes:
            for asked, ask in drive(at):
                yield route, asked, ask


def chats(at: Target) -> Iterator[tuple[str, Ask]]:
    asked: dict[str, Any] = {
        "model": at.model.id,
        "messages": [{"role": "user", "content": content_for(at.model)}],
        "max_completion_tokens": at.tokens,
    }
    said: list[str] = []

    def whole(_: Stopwatch) -> Made:
        made = at.client.chat.completions.create(**asked)
        said.append(made.choices[0].message.content)
        return said[0], bool(said[0]) and made.usage.completion_tokens > 0

    def streamed(watch: Stopwatch) -> Made:
        pieces = []
        for chunk in at.client.chat.completions.create(**asked, stream=True):
            pieces.append(chunk.choices[0].delta.content or "")
            if pieces[-1]:
                watch.came()
        return "".join(pieces), "".join(pieces) == said[0]

    def aloud(_: Stopwatch) -> Made:
        spoken = {"modalities": ["text", "audio"], "audio": {"voice": "default", "format": "wav"}}
        message = at.client.chat.completions.create(**asked, **spoken).choices[0].message
        seconds = seconds_of(base64.b64decode(message.audio.data))
        return f"{seconds:.2f} s of sound", seconds > 0 and message.content == said[0]

    def several(_: Stopwatch) -> Made:
        made = at.client.chat.completions.create(**asked, n=2)
        return f"{len(made.choices)} answers", made.choices[0].message.content == said[0]

    yield "whole", whole
    yield "streamed", streamed
    yield "n=2", several
    if any(output["type"].startswith("audio") for output in at.model.outputs):
        yield "with sound", aloud


def speeches(at: Target) -> Iterator[tuple[str, Ask]]:
    asked: dict[str, Any] = {"model": at.model.id, "voice": "default", "input": SAID}

    def form(name: str) -> Ask:
        def ask(_: Stopwatch) -> Made:
            sound = at.client.audio.speech.create(**asked, response_format=name).read()
            return f"{len(sound)} bytes", len(sound) > 100

        return ask

    def streamed(watch: Stopwatch) -> Made:
        count = 0
        made = at.client.audio.speech.with_streaming_response
        with made.create(**asked, response_format="pcm") as answer:
            for piece in answer.iter_bytes():
                watch.came()
                count += len(piece)
        return f"{count} bytes", count > 100

    for name in ("wav", "flac", "mp3", "opus"):
        yield name, form(name)
    yield "streamed", streamed


def transcriptions(at: Target) -> Iterator[tuple[str, Ask]]:
    asked = {"model": at.model.id, "file": ("question.wav", question())}
    said: list[str] = []

    def whole(_: Stopwatch) -> Made:
        said.append(at.client.audio.transcriptions.create(**asked).text)
        return said[0], bool(said[0])

    def streamed(watch: Stopwatch) -> Made:
        text = ""
        for event in at.client.audio.transcriptions.create(**asked, stream=True):
            watch.came()
            text = getattr(event, "text", text)
        return text, text == said[0]

    yield "whole", whole
    yield "streamed", streamed


def drawings(at: Target) -> Iterator[tuple[str, Ask]]:
    asked: dict[str, Any] = {"model": at.model.id, "prompt": "a red cube", "size": "64x64"}
    asked["extra_body"] = {"steps": 4}
    yield "whole", lambda _: pictures(at.client.images.generate(**asked, n=2).data)
    yield "streamed", lambda _: pictures(list(at.client.images.generate(**asked, stream=True)))


def edits(at: Target) -> Iterator[tuple[str, Ask]]:
    file = ("picture.png", (EXAMPLES / "bagel.png").read_bytes())
    asked: dict[str, Any] = {"model": at.model.id, "prompt": "make it blue", "size": "64x64"}
    asked |= {"image": file, "extra_body": {"steps": 4}}
    yield "whole", lambda _: pictures(at.client.images.edit(**asked).data)
    yield "streamed", lambda _: pictures(list(at.client.images.edit(**asked, stream=True)))


def pictures(made: Any) -> Made:
    sizes = [len(base64.b64decode(one.b64_json)) for one in made]
    return f"{len(sizes)} pictures", bool(sizes) and all(sizes)


def conversations(at: Target) -> Iterator[tuple[str, Ask]]:
    def talk(watch: Stopwatch, interrupt: bool) -> Made:
        samples, rate = soundfile.read(io.BytesIO(question()), dtype="int16")
        assert rate == 16000
        # Three samples of two: good enough for a question.
        spoken = samples.repeat(3)[::2].astype("<i2").tobytes()
        count, is_cancelled = 0, False
        with at.client.realtime.connect(model=at.model.id) as connection:
            connection.recv()
            # Long enough that there is something to interrupt.
            most = at.tokens * 8 if interrupt else at.tokens
            connection.session.update(session={"type": "realtime", "max_output_tokens": most})
            connection.input_audio_buffer.append(audio=base64.b64encode(spoken).decode())
            connection.input_audio_buffer.commit()
            connection.response.create()
            for event in connection:
                if event.type == "response.output_audio.delta":
                    watch.came()
                    count += len(base64.b64decode(event.delta)) // 2
                    if interrupt and not is_cancelled:
                        connection.response.cancel()
                        is_cancelled = True
                elif event.type in ("response.done", "error"):
                    break
        assert event.type == "response.done", event
        status = event.response.status
        right = status == "cancelled" if interrupt else status in ("completed", "incomplete")
        return f"{status}, {count / 24000:.2f} s of sound", right and count > 0

    yield "spoken", lambda watch: talk(watch, False)
    yield "interrupted", lambda watch: talk(watch, True)


def content_for(model: Any) -> Any:
    """The question: spoken to a model that hears and does not read, else written."""
    kinds = " ".join(entry["type"] for entry in model.inputs)
    if "text" in kinds:
        return SAID
    data = base64.b64encode(question()).decode()
    return [{"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}]


def question() -> bytes:
    return (EXAMPLES / "question.wav").read_bytes()


def seconds_of(wav: bytes) -> float:
    return float(soundfile.info(io.BytesIO(wav)).duration)


if __name__ == "__main__":
    sys.exit(main())
