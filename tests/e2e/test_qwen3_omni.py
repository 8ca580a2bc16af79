"""Qwen3-Omni at tiny sizes as a command: the same answer from one process, two and shards."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from tests.support.omni_media import write_media

Samples = NDArray[np.float64]
ROOT = Path(__file__).parents[2]
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
    "shards": HEAD.format(devices="4xcpu")
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


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'runtime'}"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("omni")
    write_media(folder)
    (folder / "request.json").write_text(json.dumps(REQUEST))
    given: list[str] = []
    for name, text in LAYOUTS.items():
        (folder / f"{name}.yaml").write_text(text)
        given += ["--deployment", str(folder / f"{name}.yaml")]
    compiled = run(
        *("mstarc", "compile", str(ROOT / "specs" / "qwen3_omni.mstar")),
        *("--sizes", str(ROOT / "specs" / "tiny" / "qwen3_omni.yaml")),
        *(*given, "-o", str(folder / "plan")),
    )
    assert compiled.returncode == 0, compiled.stderr
    return folder / "plan"


@pytest.fixture(scope="module")
def alone(plan: Path) -> tuple[str, Samples]:
    return answer(plan, "one")


def answer(plan: Path, layout: str) -> tuple[str, Samples]:
    out = plan.parent / layout
    done = run(
        *("mstarc_runtime", str(plan), "--placement", layout, "--threads", "1"),
        *("--request", str(plan.parent / "request.json"), "--out", str(out)),
    )
    assert done.returncode == 0, done.stderr
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
