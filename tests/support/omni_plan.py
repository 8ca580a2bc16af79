"""Qwen3-Omni's compiled plan at tiny sizes, on real ranks in this process, over given weights."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

from mstarc import driver
from mstarc.codegen.write import write_plan
from mstarc.options import CompileOptions
from mstarc.source import SourceFile
from mstarc_runtime.assembly import Extras, RunSettings
from mstarc_runtime.engine.host import InlinePool
from mstarc_runtime.launch import LocalRanks
from mstarc_runtime.loader import load_placement, load_plan
from mstarc_runtime.request import Asked, prepare
from mstarc_runtime.weights.progress import PlainProgress
from tests.runtime.rig import Collected, nowhere
from tests.support.omni_reference import ROOT, TINY

SPEC = ROOT / "specs" / "qwen3_omni.mstar"
_UNDER = {
    "audio_encoder": "thinker.audio_tower.",
    "vision_encoder": "thinker.visual.",
    "thinker": "thinker.",
    "talker": "talker.",
    "predictor": "talker.code_predictor.",
    "code2wav": "code2wav.",
}


def compile_tiny(
    folder: Path,
    weights: Path,
    placements: Sequence[str] = ("cpu",),
    deployments: Mapping[str, str] = {},
) -> Path:
    """The plan's folder; every device node has its weights in the folder `weights`.

    `deployments` are texts by name.
    """
    sizes = yaml.safe_load(TINY.read_text())
    for node, under in _UNDER.items():
        sizes["weights"][node] = {"source": str(weights), "under": under}
    outcome = driver.compile_spec(
        SourceFile(path="qwen3_omni.mstar", text=SPEC.read_text()),
        CompileOptions(
            placements=tuple(placements),
            deployments=tuple(
                SourceFile(path=f"{name}.yaml", text=text) for name, text in deployments.items()
            ),
            sizes=SourceFile(path="tiny.yaml", text=yaml.safe_dump(sizes)),
        ),
    )
    assert outcome.files is not None, [str(found.message) for found in outcome.diagnostics]
    write_plan(outcome.files, folder)
    return folder


class OmniRanks:
    """The ranks of a placement, asked with parts as a request's file has them."""

    def __init__(
        self, folder: Path, placement: str = "cpu", *, extras: Extras | None = None
    ) -> None:
        self.plan = load_plan(folder)
        self.number = -1  # of the request that was submitted last
        self.ranks = LocalRanks(
            self.plan,
            load_placement(self.plan, placement),
            settings=RunSettings(
                cache_dir=Path("/nonexistent"),
                threads=1,
                deterministic=None if extras is None else False,
            ),
            progress=PlainProgress(nowhere()),
            make_pool=lambda wake: InlinePool(),
            extras=extras,
        )

    def submit(self, parts: Sequence[Any], folder: Path, **options: Any) -> Collected:
        wants = options.pop("wants", ("reply", "speech"))
        asked = Asked(
            inputs={"parts": list(parts)}, options={**GREEDY, **options}, wants=wants, folder=folder
        )
        listener = Collected()
        self.number = self.ranks.conductor.submit(prepare(self.plan, asked), listener)
        return listener

    def run(self, most_turns: int = 200_000) -> None:
        for _ in range(most_turns):
            self.ranks.turn()
            if not self.ranks.conductor.pending:
                return
        raise AssertionError("still pending")


GREEDY: Mapping[str, Any] = {
    "temperature": 0.0,
    "top_p": 1.0,
    "talker_temperature": 0.0,
    "code_temperature": 0.0,
}


def samples_of(listener: Collected) -> Tensor:
    """f32[N]"""
    pieces = [
        torch.frombuffer(bytearray(piece), dtype=torch.float32)
        for piece in listener.values.get("speech", [])
    ]
    return torch.cat(pieces) if pieces else torch.zeros(0)
