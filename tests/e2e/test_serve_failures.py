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


class Reader(Frontend):
    def encode(self, prompt, voice):
        if "host" in prompt:
            raise ValueError("no such prompt")
        if "codec" in prompt:
            Codec.good = 3
        ids = super().encode(prompt, voice)
        return torch.tensor([3, 3, 3]) if "row" in prompt else ids


class Decoder(Llama):
    def prefill(self, ctx, ids):
        made = super().prefill(ctx, ids)
        if ids.tolist() == [3, 3, 3]:
            raise ArithmeticError("a number that is none")
        return made


class Codec(SnacDecoder):
    good = 0  # calls until one returns what was not declared

    def decode(self, ctx, codes):
        made = super().decode(ctx, codes)
        Codec.good -= 1
        return (made, made) if Codec.good == 0 else made
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


def test_a_result_that_was_not_declared_is_an_event_and_no_clean_end(faulty: Server) -> None:
    before = faulty.held()
    asked = {"input": "the codec", "stream_format": "sse", **SAID}
    with faulty.http.stream("POST", "/v1/audio/speech", json=asked) as made:
        assert made.status_code == 200
        events = events_of(made.iter_lines())
    assert "audio" in events[0]
    assert events[-1]["error"]["code"] == "MS9304"
    for part in ("voice", "sing", "`codec`", "`song`", "2 values", "faulty.mstar:"):
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
