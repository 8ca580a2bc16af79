"""A server of classes that fail: the request that meets one ends, says where, and no other does."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.golden import ROOT
from tests.support.serving import HELLO, Server, compiled, error, events_of, serving

FAULTY = """
import os
import torch
from mstarc_runtime.models.llama import Decoder as Llama
from mstarc_runtime.models.orpheus import Frontend, SnacDecoder

if os.environ.get("FAULTY") == "setup":
    os._exit(7)


# Prompts that are read as one id again and again, which is then all that is written.
MARKS = {"row": 90, "short": 91, "double": 92, "ids": 93, "codec": 94}


class Reader(Frontend):
    def encode(self, prompt, voice):
        if "host" in prompt:
            raise ValueError("no such prompt")
        marks = [id for word, id in MARKS.items() if word in prompt]
        return torch.tensor(marks * 3) if marks else super().encode(prompt, voice)

    def pause(self, prompt):
        if "between" in prompt:
            raise LookupError("nothing between")


class Decoder(Llama):
    def prefill(self, ctx, ids):
        made = super().prefill(ctx, ids)
        if MARKS["row"] in ids:
            raise ArithmeticError("a number that is none")
        return self.marked(ids[ctx.last_rows], made)

    def step(self, ctx, token):
        made = self.marked(token, super().step(ctx, token))
        return made.float() if MARKS["ids"] in token else made

    def marked(self, before, made):
        return torch.where(before >= 90, before, made.clamp(max=89))


class Codec(SnacDecoder):
    good = 2  # windows before one of which something else is returned

    def decode(self, ctx, codes):
        made = super().decode(ctx, codes)
        if MARKS["short"] in codes:
            return made[:, :1000]
        if MARKS["double"] in codes:
            return made.double()
        if MARKS["codec"] in codes:
            Codec.good -= 1
        return (made, made) if Codec.good < 0 and MARKS["codec"] in codes else made
"""
SAID = {"max_tokens": 60, "seed": 3}


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faulty")
    (folder / "faulty.py").write_text(FAULTY)
    spec = (ROOT / HELLO[0]).read_text()
    for old, new in (
        ("orpheus:Frontend", "faulty:Reader"),
        ("llama:Decoder", "faulty:Decoder"),
        ("orpheus:SnacDecoder", "faulty:Codec"),
    ):
        spec = spec.replace(old, new)
    op = "  op encode(prompt: text, voice: text) -> (ids: i64[T])\n"
    spec = spec.replace(op, f"{op}  op pause(prompt: text)\n")
    walk = "    run write(token)\n"
    spec = spec.replace(walk, f"    reader.pause(prompt)\n{walk}")
    (folder / "faulty.mstar").write_text(spec.replace("model hello_stream", "model faulty"))
    return compiled(folder, str(folder / "faulty.mstar"), HELLO[1], "cpu")


@pytest.fixture(scope="module")
def faulty(plan: Path) -> Iterator[Server]:
    with serving(plan, path=plan.parent) as server:
        yield server


def speak(server: Server, prompt: str, **more: Any) -> httpx.Response:
    return server.post("/v1/audio/speech", input=prompt, **{**SAID, **more})


def test_one_of_four_fails_and_the_others_are_answered(faulty: Server) -> None:
    prompts = ["one", "a row that fails", "three", "four"]
    alone = {prompt: speak(faulty, prompt).content for prompt in prompts if "row" not in prompt}
    before = faulty.held()

    async def all_of_them() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=faulty.address, timeout=60) as http:
            asked = [{"input": prompt, **SAID} for prompt in prompts]
            made = (http.post("/v1/audio/speech", json=one) for one in asked)
            return list(await asyncio.gather(*made))

    for prompt, answer in zip(prompts, asyncio.run(all_of_them()), strict=True):
        if prompt in alone:
            assert answer.content == alone[prompt]
            continue
        assert (answer.status_code, error(answer)["code"]) == (500, "MS9304")
        said = error(answer)["message"]
        for part in ("speak", "read", "`lm`", "a number that is none", "faulty.mstar:"):
            assert part in said
    assert faulty.held() == before


def test_a_failing_host_op_names_its_walk_and_node(faulty: Server) -> None:
    before = faulty.held()
    answer = speak(faulty, "host")
    assert (answer.status_code, error(answer)["code"]) == (500, "MS9304")
    for part in ("speak", "encode", "`reader`", "no such prompt", "faulty.mstar:"):
        assert part in error(answer)["message"]
    assert faulty.held() == before


@pytest.mark.parametrize("stream", [False, True])
def test_a_host_op_that_fails_between_two_walks_names_them(faulty: Server, stream: bool) -> None:
    before = faulty.held()
    messages = [{"role": "user", "content": "between"}]
    answer = faulty.post("/v1/chat/completions", messages=messages, stream=stream, **SAID)
    assert (answer.status_code, error(answer)["code"]) == (500, "MS9304")
    for part in ("speak.write", "pause", "`reader`", "nothing between", "faulty.mstar:"):
        assert part in error(answer)["message"]
    assert faulty.held() == before


def test_a_stream_of_a_chat_that_fails_ends_with_an_event(faulty: Server) -> None:
    before = faulty.held()
    messages = [{"role": "user", "content": "ids"}]
    asked = {"messages": messages, "stream": True, **SAID}
    with faulty.http.stream("POST", "/v1/chat/completions", json=asked) as made:
        assert made.status_code == 200
        events = events_of(made.iter_lines())
    assert events[-1]["error"]["code"] == "MS9322"
    for part in ("speak.write", "`lm.step`", "`next`", "`reply`", "faulty.mstar:"):
        assert part in events[-1]["error"]["message"]
    assert "[DONE]" not in events
    assert faulty.held() == before


@pytest.mark.parametrize(
    ("prompt", "parts"),
    [
        ("short", ("`codec.decode`", "`pcm` of another shape", "2048]", "1000]", "`song`")),
        ("double", ("`codec.decode`", "`pcm` of another dtype", "f32[", "f64[", "`song`")),
        ("ids", ("`lm.step`", "`next` of another dtype", "i64[", "f32[", "`reply`")),
    ],
)
def test_a_tensor_of_another_type_than_the_specs_ends_its_request_alone(
    faulty: Server, prompt: str, parts: tuple[str, ...]
) -> None:
    alone = speak(faulty, "one").content
    before = faulty.held()

    async def all_of_them() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=faulty.address, timeout=60) as http:
            asked = [{"input": text, **SAID} for text in ("one", prompt, "one", "one")]
            made = (http.post("/v1/audio/speech", json=one) for one in asked)
            return list(await asyncio.gather(*made))

    first, wrong, *others = asyncio.run(all_of_them())
    assert {answer.content for answer in (first, *others)} == {alone}
    assert (wrong.status_code, error(wrong)["code"]) == (500, "MS9322")
    for part in (*parts, "faulty.mstar:"):
        assert part in str(error(wrong))
    assert faulty.held() == before


def test_a_result_that_was_not_declared_is_an_event_and_no_clean_end(faulty: Server) -> None:
    before = faulty.held()
    asked = {"input": "the codec", "stream_format": "sse", **SAID}
    with faulty.http.stream("POST", "/v1/audio/speech", json=asked) as made:
        assert made.status_code == 200
        events = events_of(made.iter_lines())
    assert "audio" in events[0]
    assert events[-1]["error"]["code"] == "MS9322"
    for part in ("voice", "sing", "`codec", "`song`", "2 values", "1 result", "faulty.mstar:"):
        assert part in events[-1]["error"]["message"]
    assert not any("speech.audio.done" in str(event) for event in events)
    assert faulty.held() == before


def test_a_worker_that_dies_while_it_starts_ends_the_server(plan: Path) -> None:
    server = Server(plan, path=plan.parent, FAULTY="setup")
    try:
        assert server.process.wait(60) == 2
        server.wait_for("MS9302")
        server.wait_for("exit status 7")
    finally:
        server.close()
