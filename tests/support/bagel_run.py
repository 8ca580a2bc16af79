"""BAGEL's tiny plan, compiled and run: what requests get, and the drawings of their pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from mstarc import driver
from mstarc.options import CompileOptions
from mstarc.source import SourceFile
from mstarc_runtime.assembly import Extras, RunSettings
from mstarc_runtime.attention.makers import BackendMaker
from mstarc_runtime.engine.context import OpContext
from mstarc_runtime.launch import LocalRanks, run_until_done
from mstarc_runtime.loader import load_placement, load_plan
from mstarc_runtime.models import bagel
from mstarc_runtime.plan_api import Media, Part, parts_in_order
from mstarc_runtime.request import PreparedRequest
from mstarc_runtime.weights.progress import PlainProgress
from tests.runtime.rig import Collected, nowhere
from tests.support.bagel_cases import Case
from tests.support.shipped_specs import SPECS_BY_NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class Got:
    """What a case was given: its text, and its picture u8[3, H, W]."""

    text: str
    picture: NDArray[np.uint8] | None


@dataclass(slots=True, kw_only=True)
class TinyBagel:
    """A plan on ranks of this process. `drawings` are what was decoded, in its order."""

    ranks: LocalRanks
    drawings: list[Tensor] = field(default_factory=list)

    @classmethod
    def begin(
        cls,
        folder: Path,
        *,
        deployment: SourceFile | None = None,
        attention: BackendMaker | None = None,
        implementations: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> "TinyBagel":
        """Compiles the plan into `folder`, for one CPU or a deployment, and loads it."""
        compile_tiny(folder, deployment)
        plan = load_plan(folder)
        (placement,) = plan.placements
        drawings: list[Tensor] = []

        class Recorded(bagel.VaeDecoder):
            def decode(self, ctx: OpContext, x: Tensor, height: Tensor, width: Tensor) -> Tensor:
                drawings.extend(x.clone())
                return super().decode(ctx, x, height, width)

        ranks = LocalRanks(
            plan,
            load_placement(plan, placement),
            settings=RunSettings(cache_dir=Path("/nonexistent"), threads=1, **settings),
            progress=PlainProgress(nowhere()),
            extras=Extras(
                implementations={"bagel:VaeDecoder": Recorded, **(implementations or {})},
                attention=attention,
            ),
        )
        return cls(ranks=ranks, drawings=drawings)

    def answer(self, cases: Sequence[Case], *, stagger: int = 0) -> list[Got]:
        """What these requests get, asked for in this order, `stagger` turns apart."""
        listeners = []
        for case in cases:
            listener = Collected()
            self.ranks.conductor.submit(request_of(case), listener)
            listeners.append(listener)
            for _ in range(stagger):
                self.ranks.turn()
        run_until_done(self.ranks)
        return [_got(listener) for listener in listeners]


def compile_tiny(folder: Path, deployment: SourceFile | None = None) -> None:
    spec = SPECS_BY_NAME["bagel"]
    options = CompileOptions(
        placements=() if deployment else ("cpu",),
        deployments=(deployment,) if deployment else (),
        sizes=spec.sizes,
    )
    outcome = driver.compile_spec(spec.source, options)
    assert outcome.files is not None, [found.message for found in outcome.diagnostics]
    for name, content in outcome.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


def request_of(case: Case) -> PreparedRequest:
    return PreparedRequest(
        name=case.name,
        inputs={"parts": parts_in_order([_part(part) for part in case.parts])},
        options=case.request_options,
        wants=frozenset(case.wants),
        seed=0,
    )


def _part(part: str | Image.Image) -> Part:
    if isinstance(part, str):
        return Part(kind="text", value=part, role="user")
    buffer = BytesIO()
    part.save(buffer, "PNG")
    return Part(kind="image", value=Media(kind="image", content=buffer.getvalue()), role="user")


def _got(listener: Collected) -> Got:
    assert listener.failure is None, listener.failure
    pictures = listener.values.get("picture", [])
    return Got(
        text=listener.texts.get("reply", ""),
        picture=np.array(pictures[0], dtype=np.uint8) if pictures else None,
    )
