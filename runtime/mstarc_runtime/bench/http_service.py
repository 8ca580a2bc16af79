"""A server at a URL as a service: OpenAI's `/v1/audio/speech` and `/v1/chat/completions`, streamed.

A thread a request, so that what arrives is noted when it arrives. Sound comes as raw 16-bit
samples, as a WAV file whose header comes first, or as events that carry either in base64; text as
events. A chunk of sound is what one read of the connection gives: how a server cuts its chunks is
how they are counted.
"""

import base64
import json
import threading
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from queue import Empty, Queue
from typing import Any
from urllib.parse import urlsplit

from mstarc_runtime.bench.draw import kind_of, read_requests, text_of
from mstarc_runtime.bench.job import API_PATHS, Job, Target
from mstarc_runtime.bench.load import Clock
from mstarc_runtime.bench.record import Record
from mstarc_runtime.errors import RuntimeFailure

_READ_BYTES = 1 << 16
_TIMEOUT_S = 600.0
_BYTES_A_SAMPLE = 2


class HttpService:
    """A server, or what stands for one."""

    def __init__(self, target: Target, job: Job) -> None:
        self._target = target
        self._job = job
        self._ended: Queue[None] = Queue()
        self._texts = [_spoken(asked.inputs) for asked in read_requests(job)]
        self._options = [dict(asked.options) for asked in read_requests(job)]

    def check(self) -> None:
        """Fails with MS9014 if nobody is there."""
        connection = _connection(self._target.url)
        try:
            connection.connect()
        except OSError as error:
            raise RuntimeFailure(
                "MS9014",
                f"no server answers at `{self._target.url}`",
                notes=[f"the system says: {error.strerror or error}"],
                helps=["start it first, and wait until it is ready"],
            ) from error
        finally:
            connection.close()

    def begin(self, number: int, record: Record, now: Clock) -> None:
        body = self._body(number)
        threading.Thread(target=self._ask, args=(body, record, now), daemon=True).start()

    def turn(self, timeout_s: float) -> None:
        try:
            self._ended.get(timeout=timeout_s)
        except Empty:
            return

    def _body(self, number: int) -> dict[str, Any]:
        if self._texts:
            text = self._texts[number % len(self._texts)]
            options = self._options[number % len(self._options)]
        else:
            kind, random = kind_of(self._job, number)
            text, options = text_of(kind, random), dict(kind.options)
        body: dict[str, Any] = {"model": self._target.model, "stream": True}
        if self._target.api == "speech":
            return {**body, "input": text, "response_format": "wav", **options}
        messages = [{"role": "user", "content": text}]
        return {**body, "messages": messages, "stream_options": {"include_usage": True}, **options}

    def _ask(self, body: dict[str, Any], record: Record, now: Clock) -> None:
        connection = _connection(self._target.url)
        try:
            path = urlsplit(self._target.url).path.rstrip("/") + API_PATHS[self._target.api]
            headers = {"Content-Type": "application/json"}
            connection.request("POST", path, json.dumps(body), headers)
            response = connection.getresponse()
            if response.status != 200:
                said = response.read(400).decode(errors="replace").strip()
                record.error = f"HTTP {response.status}: {said}"
            else:
                listen(response, self._target.rate, record, now)
        except (OSError, HTTPException, ValueError) as error:
            record.error = f"{type(error).__name__}: {error}"
        finally:
            connection.close()
            record.ended_s = now()
            self._ended.put(None)


def listen(response: HTTPResponse, rate: int, record: Record, now: Clock) -> None:
    """Reads an answer to its end. Raises ValueError for one that can't be understood."""
    kind = response.headers.get_content_type()
    if kind == "text/event-stream":
        _listen_to_events(response, rate, record, now)
        return
    named = response.headers.get_param("rate")
    sound = Sound(int(named) if isinstance(named, str) else rate)
    while data := response.read1(_READ_BYTES):
        seconds = sound.seconds(data)
        if seconds:
            record.heard(now(), seconds)


class Sound:
    """How long the sound in bytes is that come piece by piece: a WAV file's, or bare samples."""

    def __init__(self, rate: int) -> None:
        self._bytes_a_second = rate * _BYTES_A_SAMPLE
        self._head: bytes | None = b""

    def seconds(self, data: bytes) -> float:
        """Raises ValueError for a WAV file of a kind that nobody can play piece by piece."""
        if self._head is not None:
            self._head += data
            if len(self._head) < 4:
                return 0.0
            if self._head[:4] != b"RIFF":
                data, self._head = self._head, None
            else:
                start = _samples_start(self._head)
                if start is None:
                    return 0.0
                place, self._bytes_a_second = start
                data, self._head = self._head[place:], None
        return len(data) / self._bytes_a_second


def _samples_start(head: bytes) -> tuple[int, int] | None:
    """(where samples begin, bytes a second) of a WAV file; none while its header is not whole."""
    place, bytes_a_second = 12, 0
    while len(head) >= place + 8:
        name, size = head[place : place + 4], int.from_bytes(head[place + 4 : place + 8], "little")
        if name == b"data":
            if not bytes_a_second:
                raise ValueError("a WAV file names no format before its samples")
            return place + 8, bytes_a_second
        if name == b"fmt " and len(head) >= place + 24:
            bytes_a_second = int.from_bytes(head[place + 16 : place + 20], "little")
        place += 8 + size + size % 2
    return None


def _listen_to_events(response: HTTPResponse, rate: int, record: Record, now: Clock) -> None:
    sound = Sound(rate)
    pieces = 0
    counted: int | None = None
    for event in _events(response):
        if "error" in event:
            raise ValueError(f"the server says: {event['error']}")
        usage = event.get("usage") or {}
        counted = usage.get("completion_tokens", counted)
        encoded = event.get("audio") or event.get("delta_audio")
        choices = event.get("choices") or [{}]
        delta = choices[0].get("delta") or {}
        if delta.get("content"):
            record.read(now())
            pieces += 1
        audio = delta.get("audio") or {}
        encoded = audio.get("data", encoded) if isinstance(audio, dict) else encoded
        if isinstance(encoded, str) and encoded:
            seconds = sound.seconds(base64.b64decode(encoded))
            if seconds:
                record.heard(now(), seconds)
    # Where a server does not count, a piece of text is one token.
    record.tokens = counted if counted is not None else (pieces or None)


def _events(response: HTTPResponse) -> Iterator[dict[str, Any]]:
    while line := response.readline():
        field, _, value = line.decode("utf-8").strip().partition(":")
        if field != "data":
            continue
        if value.strip() == "[DONE]":
            response.read()
            return
        yield json.loads(value)


def _spoken(inputs: Any) -> str:
    texts = [value for value in inputs.values() if isinstance(value, str)]
    if len(texts) == 1:
        return texts[0]
    raise RuntimeFailure(
        "MS9015",
        "a request of the file has not one text that a server could be sent",
        notes=[f"its inputs are {', '.join(inputs) or 'none'}"],
    )


def _connection(url: str) -> HTTPConnection:
    parts = urlsplit(url)
    made = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    return made(parts.hostname or "", parts.port, timeout=_TIMEOUT_S)
