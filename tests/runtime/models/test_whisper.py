"""Whisper's tokens and states equal `transformers`, alone and in a batch."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from mstarc_runtime.media.audio import read_audio
from mstarc_runtime.media.log_mel import log_mel
from mstarc_runtime.models.whisper import Decoder, Encoder
from mstarc_runtime.weights.load import load, read_config
from tests.support.dense_context import DenseContext
from tests.support.real_weights import real_weights

transformers = pytest.importorskip("transformers")

ROOT = Path(__file__).parents[3]
TINY = {
    "vocab_size": 120,
    "num_mel_bins": 80,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_source_positions": 30,
    "max_target_positions": 64,
    "bos_token_id": 1,
    "eos_token_id": 1,
    "pad_token_id": 1,
    "decoder_start_token_id": 2,
    "suppress_tokens": [7, 8, 9],
    "begin_suppress_tokens": [1, 11],
}
PROMPT = [2, 3, 4, 5]


def _reference(config: dict[str, Any], folder: Any) -> Any:
    model = transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(**config))
    with torch.no_grad():
        generator = torch.Generator().manual_seed(0)
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    model.save_pretrained(folder)
    return model.eval()


def _ours(config: dict[str, Any], folder: Any) -> tuple[Encoder, Decoder]:
    device, dtype = torch.device("cpu"), torch.float32
    encoder = Encoder.build(config, dtype=dtype, device=device)
    decoder = Decoder.build(config, dtype=dtype, device=device)
    for module in (encoder, decoder):
        load(module, folder)
    return encoder, decoder


def _greedy(
    encoder: Encoder, decoder: Decoder, mel: Tensor, prompt: list[int], steps: int
) -> list[list[int]]:
    batch = len(mel)
    ctx = DenseContext(batch)
    with torch.inference_mode():
        states = encoder.encode(ctx, mel)
        rows = torch.tensor(prompt * batch)
        token = decoder.start(ctx.rows([len(prompt)] * batch), states, rows)
        chosen = [token]
        for _ in range(steps - 1):
            token = decoder.step(ctx.rows([1] * batch), token)
            chosen.append(token)
    return torch.stack(chosen, 1).tolist()


def _reference_greedy(
    model: Any, config: dict[str, Any], mel: Tensor, prompt: list[int], steps: int
) -> list[list[int]]:
    """Greedy decoding with transformers' own logits processors, without stopping."""
    suppress = transformers.generation.SuppressTokensLogitsProcessor(config["suppress_tokens"])
    begin = transformers.generation.SuppressTokensAtBeginLogitsProcessor(
        config["begin_suppress_tokens"], len(prompt)
    )
    ids = torch.tensor([prompt] * len(mel))
    with torch.inference_mode():
        states = model.model.encoder(mel).last_hidden_state
        for _ in range(steps):
            logits = model(encoder_outputs=(states,), decoder_input_ids=ids).logits[:, -1]
            scores = suppress(ids, begin(ids, logits))
            ids = torch.cat([ids, scores.argmax(-1, keepdim=True)], 1)
    return ids[:, len(prompt) :].tolist()


def test_states_of_a_tiny_model_equal_transformers(tmp_path: Any) -> None:
    model = _reference(TINY, tmp_path)
    encoder, _ = _ours(TINY, tmp_path)
    mel = torch.randn(2, 80, 60, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected = model.model.encoder(mel).last_hidden_state
        states = encoder.encode(DenseContext(2), mel)
    torch.testing.assert_close(states, expected, rtol=1e-4, atol=1e-4)


def test_tokens_of_a_tiny_model_equal_transformers_with_its_suppression(tmp_path: Any) -> None:
    model = _reference(TINY, tmp_path)
    mel = torch.randn(3, 80, 60, generator=torch.Generator().manual_seed(2))
    tokens = _greedy(*_ours(TINY, tmp_path), mel, PROMPT, 20)
    assert tokens == _reference_greedy(model, TINY, mel, PROMPT, 20)
    assert not {7, 8, 9} & {token for row in tokens for token in row}


def test_a_request_has_the_same_tokens_alone_and_in_a_batch(tmp_path: Any) -> None:
    _reference(TINY, tmp_path)
    models = _ours(TINY, tmp_path)
    mel = torch.randn(3, 80, 60, generator=torch.Generator().manual_seed(3))
    together = _greedy(*models, mel, PROMPT, 12)
    assert together == [_greedy(*models, mel[i : i + 1], PROMPT, 12)[0] for i in range(3)]


def test_a_module_built_on_the_meta_device_is_filled_by_load(tmp_path: Any) -> None:
    model = _reference(TINY, tmp_path)
    meta = torch.device("meta")
    encoder = Encoder.build(TINY, dtype=torch.float32, device=meta)
    decoder = Decoder.build(TINY, dtype=torch.float32, device=meta)
    for module in (encoder, decoder):
        load(module, tmp_path)
    mel = torch.randn(1, 80, 60, generator=torch.Generator().manual_seed(4))
    tokens = _greedy(encoder, decoder, mel, PROMPT, 8)
    assert tokens == _reference_greedy(model, TINY, mel, PROMPT, 8)


@pytest.mark.real_weights
def test_tokens_of_whisper_base_equal_transformers() -> None:
    folder = real_weights("whisper-base")
    config = read_config(folder)
    model = transformers.WhisperForConditionalGeneration.from_pretrained(folder).eval()
    sound, _ = read_audio(ROOT / "examples" / "question.wav", 16000)
    mel = log_mel(sound.samples)[None]
    prompt = [50258, 50259, 50359, 50363]
    tokens = _greedy(*_ours(config, folder), mel, prompt, 12)
    assert tokens == _reference_greedy(model, config, mel, prompt, 12)
