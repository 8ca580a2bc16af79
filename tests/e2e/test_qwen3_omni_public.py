"""Published deployments of Qwen3-Omni run as they are, at tiny sizes, with a CPU for each GPU.

Their files are read where they lie (see `tests/specs/test_public_deployments.py`). Ranks of those
that divide a node are processes of their own; the others' ranks take turns in this one. The answer
of each is that of all others.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from mstarc.cli.main import run_command
from tests.support.golden import ROOT
from tests.support.omni_plan import GREEDY, OmniRanks, samples_of

FOLDER = Path(
    os.environ.get(
        "MSTARC_PUBLIC_DEPLOYMENTS", str(ROOT.parent / "shared" / "data" / "mstar-configs")
    )
)
FILES = sorted(FOLDER.glob("qwen3omni*.yaml"))
DEVICES = {
    "qwen3omni": 3,
    "qwen3omni_2gpu": 2,
    "qwen3omni_colocated": 1,
    "qwen3omni_full_tp2": 4,
    "qwen3omni_pd_disaggregated": 3,
    "qwen3omni_thinker_tp2": 3,
}
TEXT = "What is a cat?"
OPTIONS = {"max_tokens": 5, "talker_max_tokens": 6}
SAMPLES = 1920 * 6 - 555

pytestmark = pytest.mark.skipif(not FILES, reason=f"there are no deployment files in {FOLDER}")


def compiled(path: Path, folder: Path) -> Path:
    plan = folder / path.stem
    code = run_command(
        [
            *("compile", str(path), "--sizes", str(ROOT / "specs" / "tiny" / "qwen3_omni.yaml")),
            *("--placement", f"{DEVICES[path.stem]}xcpu", "-o", str(plan)),
        ]
    )
    assert code == 0
    return plan


def in_one_process(plan: Path, name: str) -> tuple[str, NDArray[np.float64]]:
    ranks = OmniRanks(plan, name)
    heard = ranks.submit([TEXT], plan, **OPTIONS)
    ranks.run()
    assert heard.failure is None
    return heard.texts["reply"], samples_of(heard).double().numpy()


def in_processes(plan: Path, name: str) -> tuple[str, NDArray[np.float64]]:
    out = plan / "answer"
    request = plan.parent / "request.json"
    content = {"inputs": {"parts": [TEXT]}, "options": {**GREEDY, **OPTIONS}}
    request.write_text(json.dumps({**content, "wants": ["reply", "speech"]}))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mstarc_runtime", str(plan), "--placement", name),
            *("--threads", "1", "--request", str(request), "--out", str(out)),
        ],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'runtime'}"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    reply = (out / "reply.txt").read_text().removesuffix("\n")
    return reply, soundfile.read(out / "speech.wav", dtype="float64")[0]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, NDArray[np.float64]]:
    (path,) = (path for path in FILES if path.stem == "qwen3omni_colocated")
    return in_one_process(compiled(path, tmp_path_factory.mktemp("alone")), path.stem)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_published_deployment_runs(
    path: Path, alone: tuple[str, NDArray[np.float64]], tmp_path: Path
) -> None:
    plan = compiled(path, tmp_path)
    is_divided = "tp2" in path.stem
    reply, sound = (in_processes if is_divided else in_one_process)(plan, path.stem)
    assert reply == alone[0]
    assert sound.shape == alone[1].shape == (SAMPLES,)
    # A wav file has 16 bits, and a shard's sums are rounded in another order.
    assert np.abs(sound - alone[1]).max() <= (2e-4 if is_divided else 0.0)
