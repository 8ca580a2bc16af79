"""BAGEL's plan gives what the public implementation gives, and every request its own in a batch.

Float32 on a CPU, greedy, the same weights and noise; `tests.support.bagel_reference` computed the
public values once.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file
from torch import Tensor

from mstarc.source import SourceFile
from mstarc_runtime.attention.torch_reference import TorchAttention
from mstarc_runtime.engine.context import KVContext
from mstarc_runtime.media.tokens import AsciiVocabulary, TextState
from mstarc_runtime.models.bagel import MixtureOfTransformers
from tests.support.bagel_cases import CASES, Case
from tests.support.bagel_run import Got, TinyBagel
from tests.support.golden import ROOT
from tests.support.parity import relative_error

# What eight updates add up to in float32.
CLOSE = 1e-4


@pytest.fixture(scope="module")
def public() -> dict[str, Tensor]:
    return load_file(ROOT / "tests/runtime/parity/bagel.safetensors")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Got, Tensor | None]]:
    """What every case gets and its drawing, when nobody else is there."""
    tiny = TinyBagel.begin(tmp_path_factory.mktemp("alone") / "plan")
    answers: dict[str, tuple[Got, Tensor | None]] = {}
    for case in CASES:
        tiny.drawings.clear()
        (got,) = tiny.answer([case])
        answers[case.name] = (got, tiny.drawings[0] if case.draws else None)
    return answers


def _read(tokens: Tensor) -> str:
    words, state = AsciiVocabulary(128), TextState()
    return "".join(state.feed(words.bytes_of(token)) for token in tokens.tolist())


@pytest.mark.parametrize("case", [case for case in CASES if case.draws], ids=lambda case: case.name)
def test_drawings_are_the_public_ones(
    case: Case, public: dict[str, Tensor], alone: dict[str, tuple[Got, Tensor | None]]
) -> None:
    got, drawing = alone[case.name]
    assert drawing is not None and got.picture is not None
    assert relative_error(drawing[1:-1], public[f"case.{case.name}.latents"]) < CLOSE
    wanted = public[f"case.{case.name}.picture"].numpy()
    assert np.abs(got.picture.astype(int) - wanted).max() <= 1


@pytest.mark.parametrize("case", [case for case in CASES if case.says], ids=lambda case: case.name)
def test_texts_are_the_public_ones(
    case: Case, public: dict[str, Tensor], alone: dict[str, tuple[Got, Tensor | None]]
) -> None:
    assert alone[case.name][0].text == _read(public[f"case.{case.name}.tokens"])


def test_each_request_gets_its_own_in_a_batch(
    tmp_path: Path, alone: dict[str, tuple[Got, Tensor | None]]
) -> None:
    """With and without guidance, editing, thinking and talking, of several sizes, all at once."""
    tiny = TinyBagel.begin(tmp_path / "plan")
    for case, got in zip(CASES, tiny.answer(CASES), strict=True):
        _same(got, alone[case.name][0], case)
    backwards = CASES[::-1]
    for case, got in zip(backwards, tiny.answer(backwards, stagger=3), strict=True):
        _same(got, alone[case.name][0], case)


def test_branches_of_guidance_are_one_call(tmp_path: Path, public: dict[str, Tensor]) -> None:
    """Where a device computes all rows at once: two branches, three, and those of two requests."""
    calls: list[int] = []

    class Watched(MixtureOfTransformers):
        def denoise(self, ctx: KVContext, x: Tensor, t: Tensor, columns: Tensor) -> Tensor:
            calls.append(ctx.batch)
            return super().denoise(ctx, x, t, columns)

    tiny = TinyBagel.begin(
        tmp_path / "plan",
        attention=lambda cache: TorchAttention(cache, row_by_row=False),
        implementations={"bagel:MixtureOfTransformers": Watched},
        deterministic=False,
    )
    by_name = {case.name: case for case in CASES}
    for names, most in ((["by_text"], 2), (["edit_global"], 3), (["by_text", "edit_channel"], 3)):
        tiny.drawings.clear()
        calls.clear()
        tiny.answer([by_name[name] for name in names])
        assert max(calls) == most
        for drawing in tiny.drawings:
            near = [
                relative_error(drawing[1:-1], public[f"case.{name}.latents"])
                for name in names
                if public[f"case.{name}.latents"].shape == drawing[1:-1].shape
            ]
            assert min(near) < CLOSE


def test_rows_of_several_requests_share_calls(
    tmp_path: Path, public: dict[str, Tensor], alone: dict[str, tuple[Got, Tensor | None]]
) -> None:
    """As on a GPU, where bits may depend on the batch and nothing else does."""
    tiny = TinyBagel.begin(tmp_path / "plan", deterministic=False)
    for case, got in zip(CASES, tiny.answer(CASES), strict=True):
        own = alone[case.name][0]
        assert got.text == own.text, case.name
        if own.picture is not None:
            assert got.picture is not None
            assert np.abs(got.picture.astype(int) - own.picture).max() <= 1, case.name


def test_pictures_are_the_same_with_the_branches_of_guidance_on_three_ranks(
    tmp_path: Path, alone: dict[str, tuple[Got, Tensor | None]]
) -> None:
    path = "specs/deployments/bagel_cfg_parallel_3cpu.yaml"
    deployment = SourceFile(path=path, text=(ROOT / path).read_text(encoding="utf-8"))
    tiny = TinyBagel.begin(tmp_path / "plan", deployment=deployment)
    for stagger in (0, 2):
        for case, got in zip(CASES, tiny.answer(CASES, stagger=stagger), strict=True):
            _same(got, alone[case.name][0], case)


def test_drawings_of_as_many_cells_and_another_shape_share_calls(tmp_path: Path) -> None:
    wide = CASES[1]
    tall = replace(wide, name="tall", options={"height": 96, "width": 64})
    alone = TinyBagel.begin(tmp_path / "alone")
    owns = [alone.answer([case])[0] for case in (wide, tall)]
    together = TinyBagel.begin(tmp_path / "together", deterministic=False).answer([wide, tall])
    for got, own in zip(together, owns, strict=True):
        assert got.picture is not None and own.picture is not None
        assert got.picture.shape == own.picture.shape
        assert np.abs(got.picture.astype(int) - own.picture).max() <= 1
    assert owns[0].picture is not None and owns[0].picture.shape == (3, 64, 96)
    assert owns[1].picture is not None and owns[1].picture.shape == (3, 96, 64)


READ_SAID_DRAWN = """
model: bagel
devices: 3xcpu
node_groups:
  - {node_names: [vit_encoder, vae_encoder, vae_decoder], ranks: [0]}
  - {node_names: [LLM], ranks: [0], graph_walks: [prefill_text, prefill_vit, prefill_vae]}
  - {node_names: [LLM], ranks: [1], graph_walks: [decode]}
  - {node_names: [LLM], ranks: [2], graph_walks: [image_gen]}
"""


def test_words_are_the_same_where_they_are_read_said_and_drawn_on_three_ranks(
    tmp_path: Path,
) -> None:
    """What was read counts for the repetition penalty on the rank that speaks."""
    sampled = {"temperature": 0.8, "repetition_penalty": 1.4, "max_tokens": 24}
    cases = [
        replace(case, options={**case.options, **sampled, "seed": seed})
        for seed, case in enumerate(case for case in CASES if case.says)
    ]
    own = TinyBagel.begin(tmp_path / "one").answer(cases)
    deployment = SourceFile(path="deployment.yaml", text=READ_SAID_DRAWN)
    apart = TinyBagel.begin(tmp_path / "three", deployment=deployment).answer(cases)
    for case, got, wanted in zip(cases, apart, own, strict=True):
        _same(got, wanted, case)


def _same(got: Got, own: Got, case: Case) -> None:
    assert got.text == own.text, case.name
    assert (got.picture is None) == (own.picture is None), case.name
    if got.picture is not None and own.picture is not None:
        assert np.array_equal(got.picture, own.picture), case.name
