"""Each part of Qwen3-Omni gives what the same part of `transformers` gives, in float32."""

from pathlib import Path
from typing import Any

import pytest
import torch

from mstarc_runtime.engine.context import StatelessContext
from mstarc_runtime.models.qwen3_omni import (
    AudioTower,
    Code2Wav,
    CodePredictor,
    Talker,
    Thinker,
    VisionTower,
)
from mstarc_runtime.plan_api import Maybe
from mstarc_runtime.weights.load import load, read_config
from tests.support.dense_context import DenseContext
from tests.support.omni_reference import Reference
from tests.support.parity import CPU

ALONE = StatelessContext(batch=1, device=CPU)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    return Reference(tmp_path_factory.mktemp("omni"))


def built(kind: Any, reference: Reference, under: str) -> Any:
    config = read_config(reference.folder)
    module = kind.build(config, dtype=torch.float32, device=CPU)
    load(module, reference.folder, under=under)
    return module.eval()


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("frames", [7, 100, 137, 200, 1003])
@torch.inference_mode()
def test_the_audio_tower(reference: Reference, frames: int) -> None:
    tower = built(AudioTower, reference, "thinker.audio_tower.")
    mel = torch.randn(128, frames)
    theirs = reference.tower("audio_tower")(mel, feature_lens=torch.tensor([frames]))
    both = tower.heard(torch.stack([mel, mel.flip(1)]))
    close(both[0], theirs.last_hidden_state)


@pytest.mark.parametrize("grid", [(1, 4, 4), (1, 2, 6), (3, 6, 4)])
@torch.inference_mode()
def test_the_vision_tower(reference: Reference, grid: tuple[int, int, int]) -> None:
    tower = built(VisionTower, reference, "thinker.visual.")
    frames, height, width = grid
    px = torch.randint(0, 256, (frames * height * width, 1536), dtype=torch.uint8)
    theirs = reference.tower("visual")(px / 127.5 - 1.0, grid_thw=torch.tensor([grid]))
    emb, deep = tower.seen(px.view(1, frames, height // 2, width // 2, -1))
    close(emb[0], theirs.pooler_output)
    close(deep[0].transpose(0, 1), torch.stack(theirs.deepstack_features))


@torch.inference_mode()
def test_the_thinker(reference: Reference) -> None:
    thinker = built(Thinker, reference, "thinker.")
    logits: list[torch.Tensor] = []
    thinker.head.register_forward_hook(lambda module, given, made: logits.append(made))
    ids = torch.randint(0, 400, (9,))
    theirs = reference.model.thinker(input_ids=ids[None], output_hidden_states=True)
    context = DenseContext(1)
    _, h = thinker.text(context.rows([6]), ids[:6])
    close(h, theirs.hidden_states[0][0, :6])
    close(logits[-1], theirs.logits[0, 5:6])
    for number in range(6, 9):
        thinker.step(context.rows([1]), ids[number : number + 1], True)
        close(logits[-1], theirs.logits[0, number : number + 1])


@torch.inference_mode()
def test_the_code_predictor(reference: Reference) -> None:
    predictor = built(CodePredictor, reference, "talker.code_predictor.")
    talker = reference.model.talker
    past, code = torch.randn(2, 48), torch.tensor([3, 17])
    rows = torch.stack([past, talker.model.codec_embedding(code)], dim=1)
    theirs = talker.code_predictor.generate(inputs_embeds=rows, max_new_tokens=3, do_sample=False)
    context = DenseContext(2)
    predictor.prime(context.rows([1, 1]), past)
    made = []
    for depth in range(3):
        code = predictor.step(context.rows([1, 1]), code, depth)
        made.append(code)
    assert torch.stack(made, dim=1).tolist() == theirs.tolist()


@torch.inference_mode()
def test_the_talker(reference: Reference) -> None:
    talker = built(Talker, reference, "talker.")
    theirs = reference.model.talker
    past: list[torch.Tensor] = []
    h = torch.randn(7, 64)
    media = torch.tensor([False, False, True, True, False, False, False])
    place = torch.tensor(
        [[0, 0, 0], [1, 1, 1], [2, 2, 2], [2, 2, 3], [4, 4, 4], [5, 5, 5], [6, 6, 6]]
    )
    rows = torch.where(media[:, None], theirs.hidden_projection(h), theirs.text_projection(h))
    words = reference.model.thinker.get_input_embeddings()(
        torch.tensor([422, 422, 422, 422, 423, 9])
    )
    marks = theirs.model.codec_embedding(torch.tensor([1054, 1053, 1052, 1049, 1051, 1050]))
    rows = torch.cat([rows, theirs.text_projection(words) + marks])
    places = torch.cat([place, torch.arange(7, 13)[:, None].expand(-1, 3)])
    expected = theirs.model(inputs_embeds=rows[None], position_ids=places.T[:, None])
    context = DenseContext(1)
    at = talker.prefill(context.rows([7]), h, media, place)
    assert at.tolist() == [7]
    word = Maybe(
        reference.model.thinker.get_input_embeddings()(torch.tensor([9])), torch.tensor([True])
    )
    code, row, ahead = talker.begin(context.rows([6]), word, torch.tensor([1049]), at)
    past.append(row)
    close(row, expected.last_hidden_state[0, -1:])
    assert ahead.tolist() == [0]
    assert int(code) < 32


@torch.inference_mode()
def test_code2wav_in_chunks_is_code2wav_at_once(reference: Reference) -> None:
    vocoder = built(Code2Wav, reference, "code2wav.")
    codes = torch.randint(0, 32, (2, 4, 230))
    theirs = reference.model.code2wav(codes)[:, 0]
    frames = codes.transpose(1, 2)
    at_once = vocoder.decode(ALONE, frames)
    assert at_once.shape == (2, 1920 * 230 - 555)
    close(at_once, theirs)
    reach = 2 * 71 + 12
    for sizes in ([4, 8, 16, 25, 25, 25, 25, 25, 25, 25, 25, 2], [1] * 20 + [30] * 7):
        pieces, start = [], 0
        for size in sizes:
            old = min(start, reach)
            ctx = StatelessContext(batch=2, device=CPU, old=old)
            pieces.append(vocoder.decode(ctx, frames[:, start - old : start + size]))
            start += size
        streamed = torch.cat(pieces, dim=1)
        assert streamed.shape == at_once.shape
        torch.testing.assert_close(streamed, at_once, rtol=0, atol=1e-5)


def test_weights_left_out_are_noticed(reference: Reference, tmp_path: Path) -> None:
    config = read_config(reference.folder)
    for kind, under in ((Thinker, "thinker."), (Talker, "talker.")):
        module = kind.build(config, dtype=torch.float32, device=torch.device("meta"))
        load(module, reference.folder, under=under)
        assert not any(parameter.is_meta for parameter in module.parameters())
