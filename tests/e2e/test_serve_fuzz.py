"""Whatever is sent to a server, it answers: with what was asked for, or whose mistake it was.

Requests are made from the server's own OpenAPI document, right ones and wrong ones, from bytes of
chance, and from media that end too early. `MSTARC_FUZZ_EXAMPLES` asks for more of them.
"""

import base64
import json
import os
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.serving import Server, question

schemathesis = pytest.importorskip("schemathesis")

EXAMPLES = int(os.environ.get("MSTARC_FUZZ_EXAMPLES", "4"))
FEW = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
POSTS = (
    "/v1/chat/completions",
    "/v1/audio/speech",
    "/v1/audio/transcriptions",
    "/v1/images/generations",
    "/v1/images/edits",
    "/generate",
)
_MOST_TOKENS = 8


def check_answer(answer: httpx.Response) -> None:
    """Whether it is a success, or says as JSON what was wrong with the request."""
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        said = answer.json()["error"]
        assert said["message"] and said["type"] and said["code"]


def shortened(body: Any) -> Any:
    """The same request for fewer tokens: what is tested is not the model."""
    if not isinstance(body, dict):
        return body
    fewer = {
        key: min(value, _MOST_TOKENS)
        if key in ("max_tokens", "max_completion_tokens") and type(value) is int
        else shortened(value)
        for key, value in body.items()
    }
    return {**fewer, "n": 1} if fewer.get("n") in (2, 3, 4) else fewer


@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_requests_of_the_servers_own_document_are_answered(hello: Server, mode: str) -> None:
    document = hello.http.get("/openapi.json").json()
    schema = schemathesis.openapi.from_dict(document)
    generation = schemathesis.GenerationMode[mode]
    tried = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.method.upper() != "POST":
            continue

        @FEW
        @given(case=operation.as_strategy(generation_mode=generation))
        def ask(case: Any) -> None:
            content = case.body if isinstance(case.body, bytes) else b""
            if isinstance(case.body, (dict, list, str, int, float, bool, type(None))):
                content = json.dumps(shortened(case.body)).encode()
            headers = {
                str(name): str(value).encode("ascii", "ignore").decode()
                for name, value in (case.headers or {}).items()
            }
            headers["content-type"] = case.media_type or "application/json"
            check_answer(hello.http.post(case.path, content=content, headers=headers))

        ask()
        tried += 1
    assert tried >= 3
    assert hello.http.get("/ready").status_code == 200


@FEW
@given(
    path=st.sampled_from(POSTS),
    body=st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
        max_leaves=9,
    ).map(lambda value: json.dumps(value).encode()),
    kind=st.sampled_from(
        ("application/json", "multipart/form-data; boundary=x", "multipart/form-data", "text/plain")
    ),
)
def test_bytes_of_chance_are_answered(hello: Server, path: str, body: bytes, kind: str) -> None:
    check_answer(hello.http.post(path, content=body, headers={"content-type": kind}))


FIELDS = st.dictionaries(
    st.sampled_from(
        [
            *("model", "messages", "input", "inputs", "options", "wants", "seed", "stream"),
            *("voice", "max_tokens", "temperature", "response_format", "stream_format", "n"),
        ]
    ),
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=6)
    | st.lists(st.text(max_size=4) | st.integers() | st.dictionaries(st.text(), st.none()))
    | st.just({"prompt": "hi"})
    | st.just([{"role": "user", "content": "hi"}]),
    max_size=6,
)


@FEW
@given(path=st.sampled_from(POSTS), fields=FIELDS)
def test_fields_with_values_of_chance_are_answered(
    hello: Server, path: str, fields: dict[str, Any]
) -> None:
    body = {"input": "hi", **shortened(fields)}
    check_answer(hello.http.post(path, json=body))


@FEW
@given(end=st.integers(0, 400_000), flips=st.lists(st.integers(0, 80), max_size=3))
def test_sounds_that_end_too_early_are_answered(
    hearing: Server, end: int, flips: list[int]
) -> None:
    sound = bytearray(question()[: end % (len(question()) + 1)])
    for place in flips:
        if place < len(sound):
            sound[place] ^= 0xFF
    answer = hearing.http.post(
        "/v1/audio/transcriptions", files={"file": ("q.wav", bytes(sound))}, data={"max_tokens": 2}
    )
    check_answer(answer)
    part = {"data": base64.b64encode(bytes(sound)).decode(), "format": "wav"}
    content = [{"type": "input_audio", "input_audio": part}]
    asked = {"messages": [{"role": "user", "content": content}], "max_tokens": 2}
    check_answer(hearing.post("/v1/chat/completions", **asked))
