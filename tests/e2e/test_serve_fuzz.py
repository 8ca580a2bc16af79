"""Whatever is sent to a server, it answers: with what was asked for, or whose mistake it was.

Requests are made from the server's own OpenAPI document, right ones and wrong ones, from bytes of
chance, and from sounds, pictures and films that are cut short or damaged, for every route that
takes them. `MSTARC_FUZZ_EXAMPLES` asks for more of them, other ones each time; what came of all is
printed at the end (`pytest -s`).
"""

import base64
import json
import os
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.media_samples import FILMS, PICTURES, SOUNDS, damaged, sample
from tests.support.serving import Server

schemathesis = pytest.importorskip("schemathesis")

_ASKED = os.environ.get("MSTARC_FUZZ_EXAMPLES")
EXAMPLES = int(_ASKED or "4")
FEW = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=_ASKED is None,
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


@pytest.fixture(scope="module")
def outcomes() -> Iterator[Counter[str]]:
    """How often each status came, and each code."""
    counted: Counter[str] = Counter()
    yield counted
    print(f"\n{sum(counted.values())} requests: {dict(counted.most_common())}")


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """What the servers of a test hold afterwards is what they held before."""
    servers = [
        request.getfixturevalue(name)
        for name in ("hello", "hearing", "seeing", "drawing")
        if name in request.fixturenames
    ]
    before = [server.held() for server in servers]
    yield
    assert [server.held() for server in servers] == before
    for server in servers:
        assert server.http.get("/ready").status_code == 200


def check_answer(answer: httpx.Response, outcomes: Counter[str]) -> None:
    """Whether it is a success, or says as JSON what was wrong with the request."""
    code = answer.json()["error"]["code"] if answer.status_code >= 400 else ""
    outcomes[f"{answer.status_code} {code}".strip()] += 1
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
def test_requests_of_the_servers_own_document_are_answered(
    hello: Server, mode: str, outcomes: Counter[str]
) -> None:
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
            try:
                answer = hello.http.post(case.path, content=content, headers=headers)
            except httpx.RemoteProtocolError:
                # Sound that has begun ends early where its time is over.
                assert b'"deadline"' in content or "x-mstarc-deadline" in map(str.lower, headers)
                outcomes["cut at its deadline"] += 1
                return
            check_answer(answer, outcomes)

        ask()
        tried += 1
    assert tried >= 3


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
def test_bytes_of_chance_are_answered(
    hello: Server, outcomes: Counter[str], path: str, body: bytes, kind: str
) -> None:
    check_answer(hello.http.post(path, content=body, headers={"content-type": kind}), outcomes)


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
    hello: Server, outcomes: Counter[str], path: str, fields: dict[str, Any]
) -> None:
    body = {"input": "hi", **shortened(fields)}
    check_answer(hello.http.post(path, json=body), outcomes)


# Damage


known = cache(sample)


def media(*names: str) -> st.SearchStrategy[tuple[str, bytes]]:
    """Files of these names: as they are, cut, with bits turned, with a part there twice."""
    flips = st.lists(st.tuples(st.integers(0, 30_000), st.integers(1, 255)), max_size=4)
    ends = st.just(1000) | st.integers(0, 1000)
    doubled = st.just(0) | st.integers(0, 1000)
    return st.builds(
        lambda name, end, flips, doubled: (name, damaged(known(name), end, flips, doubled)),
        st.sampled_from(names),
        ends,
        flips,
        doubled,
    )


def data_url(content: bytes, kind: str) -> dict[str, str]:
    return {"url": f"data:{kind}/any;base64,{base64.b64encode(content).decode()}"}


@FEW
@given(file=media(*SOUNDS))
def test_damaged_sounds_are_answered(
    hearing: Server, outcomes: Counter[str], file: tuple[str, bytes]
) -> None:
    name, content = file
    answer = hearing.http.post(
        "/v1/audio/transcriptions", files={"file": (name, content)}, data={"max_tokens": 2}
    )
    check_answer(answer, outcomes)
    data = base64.b64encode(content).decode()
    part = {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
    messages = [{"role": "user", "content": [part]}]
    answer = hearing.post("/v1/chat/completions", messages=messages, max_tokens=2)
    check_answer(answer, outcomes)
    options = {"max_tokens": 2}
    answer = hearing.post("/generate", inputs={"question": data}, options=options, wants=["reply"])
    check_answer(answer, outcomes)


@FEW
@given(files=st.lists(media(*PICTURES, *FILMS, *SOUNDS), min_size=1, max_size=2))
def test_damaged_media_of_a_conversation_are_answered(
    seeing: Server, outcomes: Counter[str], files: list[tuple[str, bytes]]
) -> None:
    parts: list[dict[str, Any]] = [{"type": "text", "text": "?"}]
    generated: list[Any] = ["?"]
    for name, content in files:
        data = base64.b64encode(content).decode()
        if name in SOUNDS:
            parts.append({"type": "input_audio", "input_audio": {"data": data, "format": "mp3"}})
            generated.append({"audio": {"data": data}})
        elif name in PICTURES:
            parts.append({"type": "image_url", "image_url": data_url(content, "image")})
            generated.append({"image": {"data": data}})
        else:
            parts.append({"type": "video_url", "video_url": data_url(content, "video")})
            generated.append({"video": {"data": data}})
    messages = [{"role": "user", "content": parts}]
    asked = {"max_tokens": 2, "modalities": ["text"]}
    check_answer(seeing.post("/v1/chat/completions", messages=messages, **asked), outcomes)
    inputs, options = {"parts": generated}, {"max_tokens": 2, "talker_max_tokens": 2}
    answer = seeing.post("/generate", inputs=inputs, options=options, wants=["reply"])
    check_answer(answer, outcomes)


@FEW
@given(files=st.lists(media(*PICTURES, *FILMS[:1]), min_size=1, max_size=2))
def test_damaged_pictures_to_be_changed_are_answered(
    drawing: Server, outcomes: Counter[str], files: list[tuple[str, bytes]]
) -> None:
    answer = drawing.http.post(
        "/v1/images/edits",
        data={"prompt": "bluer", "size": "64x64", "steps": "1"},
        files=[("image[]", file) for file in files],
    )
    check_answer(answer, outcomes)
    parts = [{"image": {"data": base64.b64encode(content).decode()}} for _, content in files]
    inputs, options = {"parts": [*parts, "bluer"]}, {"steps": 1, "width": 64, "height": 64}
    answer = drawing.post("/generate", inputs=inputs, options=options, wants=["picture"])
    check_answer(answer, outcomes)
