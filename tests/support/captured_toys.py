"""Toy specs compiled into folders, and their ranks with regions as a GPU would capture them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mstarc import driver
from mstarc.options import CompileOptions
from mstarc.source import SourceFile
from mstarc_runtime.assembly import Extras, RunSettings
from mstarc_runtime.attention.torch_reference import TorchAttention
from mstarc_runtime.engine.fake import FakeGraphExecutor
from mstarc_runtime.engine.host import InlinePool
from mstarc_runtime.launch import LocalRanks
from mstarc_runtime.loader import load_placement, load_plan
from mstarc_runtime.weights.progress import PlainProgress
from tests.runtime.rig import nowhere


def compile_into(folder: Path, source: SourceFile, options: CompileOptions) -> Path:
    """The folder, with the plan of a spec that compiles."""
    outcome = driver.compile_spec(source, options)
    assert outcome.files is not None, [found.message for found in outcome.diagnostics]
    for path, content in outcome.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content, encoding="utf-8")
    return folder


class Tok:
    """Ids are bytes, words are numbers."""

    @classmethod
    def build(cls, config: object, **_: object) -> "Tok":
        return cls()

    def ids(self, prompt: str) -> Tensor:
        return torch.tensor(list(prompt.encode()))

    def text(self, token: int) -> str:
        return f"{token} "


def captured_ranks(
    folder: Path,
    model: str,
    kinds: Mapping[str, Any],
    *,
    stretch: int | None = None,
    check: bool = False,
) -> LocalRanks:
    """A plan's rank on a CPU; `kinds` are the classes of its nodes. `stretch`: another than the
    plan's. `check`: see the executor."""
    plan = load_plan(folder)
    return LocalRanks(
        plan,
        load_placement(plan, "cpu"),
        settings=RunSettings(
            cache_dir=Path("/nonexistent"),
            threads=1,
            deterministic=False,
            buckets=(4,),
            sources=dict.fromkeys(kinds, "random"),
        ),
        progress=PlainProgress(nowhere()),
        make_pool=lambda wake: InlinePool(),
        extras=Extras(
            implementations={f"{model}:{kind.__name__}": kind for kind in kinds.values()},
            executor=FakeGraphExecutor(check=check),
            attention=lambda cache: TorchAttention(cache, row_by_row=False),
            stretch=stretch,
        ),
    )
