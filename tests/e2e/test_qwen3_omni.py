"""Qwen3-Omni at tiny sizes, with real ranks: the same answer from one process, two and shards."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from tests.support.omni_media import write_media
from tests.support.run_here import run_here
from tests.support.serving import compiled

Samples = NDArray[np.float64]
HEAD = """
model: qwen3_omni
devices: {devices}
max_seq_len: 2048
max_concurrent_requests: 4
node_groups:
"""
SPEECH = """
  - node_names: [Talker, Code2Wav]
    ranks: [{rank}]
"""
SENSES = """
  - node_names: [frontend, audio_encoder, vision_encoder]
    ranks: [0]
"""
LAYOUTS = {
    "apart": HEAD.format(devices="2xcpu")
    + SENSES
    + "  - {node_names: [Thinker], ranks: [0]}"
    + SPEECH.format(rank=1),
    # A prompt of several pieces besides.
    "shards": "kv_cache: {prefill_tokens: 32}"
    + HEAD.format(devices="4xcpu")
    + SENSES
    + "  - {node_names: [Thinker], ranks: [0, 1], tp_size: 2}\n"
    + "  - {node_names: [talker], ranks: [2, 3], tp_size: 2}\n"
    + "  - {node_names: [predictor, Code2Wav], ranks: [2]}\n",
    "by_walk": HEAD.format(devices="3xcpu")
    + SENSES
    + "  - {node_names: [Thinker], ranks: [0],"
    + " graph_walks: [prefill_text, prefill_audio, prefill_vision]}\n"
    + "  - {node_names: [Thinker], ranks: [1], graph_walks: [thinker_decode]}"
    + SPEECH.format(rank=2),
    "one": HEAD.format(devices="1xcpu")
    + SENSES
    + "  - {node_names: [Thinker], ranks: [0]}"
    + SPEECH.format(rank=0),
}
REQUEST = {
    "inputs": {
        "parts": [
            {"text": "Be brief.", "role": "system"},
            {"image": "wide.png"},
            "What is this?",
            {"text": "A cat.", "role": "assistant"},
            {"audio": "short.wav"},
            {"video": "film.mp4"},
        ]
    },
    "wants": ["reply", "speech"],
    "options": {"max_tokens": 8, "talker_max_tokens": 14},
    "seed": 3,
}


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("omni")
    write_media(folder)
    (folder / "request.json").write_text(json.dumps(REQUEST))
    spec, sizes = "specs/qwen3_omni.mstar", "specs/tiny/qwen3_omni.yaml"
    return compiled(folder, spec, sizes, deployments=LAYOUTS)


@pytest.fixture(scope="module")
def alone(plan: Path) -> tuple[str, Samples]:
    return answer(plan, "one")


def answer(plan: Path, layout: str) -> tuple[str, Samples]:
    out = plan.parent / layout
    request = plan.parent / "request.json"
    done = run_here(plan, "--placement", layout, "--request", str(request), "--out", str(out))
    assert done.status == 0, done.err
    return (out / "reply.txt").read_text(), soundfile.read(out / "speech.wav")[0]


@pytest.mark.parametrize("layout", ["apart", "by_walk", "shards"])
def test_every_layout_gives_the_same_answer(
    plan: Path,
    alone: tuple[str, Samples],
    layout: str,
) -> None:
    reply, sound = answer(plan, layout)
    assert reply == alone[0]
    assert len(reply) > 0
    assert sound.shape == alone[1].shape == (1920 * 14 - 555,)
    # A shard's sums are rounded in another order.
    tolerance = 1e-4 if layout == "shards" else 0.0
    assert np.abs(sound - alone[1]).max() <= tolerance
