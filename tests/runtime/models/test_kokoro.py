"""Kokoro equals the public module, given the same weights and the same noise."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mstarc_runtime.models.kokoro import Voice
from mstarc_runtime.models.kokoro.voice import _cut
from mstarc_runtime.weights.counter import normal, seed_of
from mstarc_runtime.weights.load import load, read_config
from mstarc_runtime.weights.random import randomise
from tests.support.dense_context import DenseContext
from tests.support.pypi_kokoro import noise, reference_kokoro
from tests.support.real_weights import real_weights

CPU = torch.device("cpu")
TINY: dict[str, Any] = {
    "sampling_rate": 24000,
    "voice": "v",
    "voice_rows": 40,
    "hidden_dim": 16,
    "style_dim": 128,
    "n_token": 30,
    "n_layer": 2,
    "max_dur": 4,
    "text_encoder_kernel_size": 5,
    "plbert": {
        "hidden_size": 24,
        "embedding_size": 16,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 64,
        "num_hidden_layers": 2,
    },
    "istftnet": {
        "decoder_dim": 24,
        "residual_dim": 8,
        "upsample_kernel_sizes": [4, 4],
        "upsample_rates": [2, 2],
        "gen_istft_hop_size": 5,
        "gen_istft_n_fft": 20,
        "resblock_dilation_sizes": [[1, 3, 5]] * 2,
        "resblock_kernel_sizes": [3, 7],
        "upsample_initial_channel": 16,
    },
}
PHONEMES = [5, 9, 16, 7, 3, 3, 16, 12, 21, 8]


def _voice(config: dict[str, Any]) -> Voice:
    voice = Voice.build(config, dtype=torch.float32, device=CPU)
    randomise(voice, seed=3)
    return voice


def _speak(voice: Voice, phonemes: list[int]) -> torch.Tensor:
    ids = torch.tensor([[0, *phonemes, 0] if phonemes else []], dtype=torch.int64)
    with torch.inference_mode():
        return voice.speak(DenseContext(1), ids)[0]


def _reference(voice: Voice, config: dict[str, Any], phonemes: list[int]) -> torch.Tensor:
    public = {name: value for name, value in config.items() if name != "istftnet"}
    keys = {n: v for n, v in config["istftnet"].items() if n not in ("decoder_dim", "residual_dim")}
    model = reference_kokoro({**public, "istftnet": keys})
    state = {name: value for name, value in voice.state_dict().items() if name != "styles"}
    left = model.load_state_dict(state, strict=False)
    assert left.unexpected_keys == []
    # The public norms have scales and shifts that are never trained away from one and zero.
    assert all(".norm." in key or "bert.pooler" in key for key in left.missing_keys)
    style = voice.styles[len(phonemes) - 1].clone()
    seed = seed_of(*phonemes)
    with noise(lambda count: normal(seed, count, CPU)), torch.inference_mode():
        samples: torch.Tensor = model.forward_with_tokens(
            torch.tensor([[0, *phonemes, 0]]), style, 1.0
        )[0]
    return samples


def _signal_to_difference_db(signal: torch.Tensor, other: torch.Tensor) -> float:
    return float(10 * torch.log10(signal.square().sum() / (signal - other).square().sum()))


@pytest.mark.real_weights
def test_a_small_model_with_random_weights_equals_the_public_module() -> None:
    # The public module has these sizes built in.
    sizes = {"decoder_dim": 1024, "residual_dim": 64, "upsample_initial_channel": 512}
    config = {**TINY, "hidden_dim": 512, "istftnet": {**TINY["istftnet"], **sizes}}
    voice = _voice(config)
    samples = _speak(voice, PHONEMES)
    expected = _reference(voice, config, PHONEMES)
    assert samples.shape == expected.shape
    assert _signal_to_difference_db(expected, samples) > 50


@pytest.mark.real_weights
def test_kokoro_82m_equals_the_public_module() -> None:
    folder = real_weights("kokoro-82m")
    config = read_config(folder)
    voice = Voice.build(config, dtype=torch.float32, device=CPU)
    load(voice, folder)
    phonemes = [81, 83, 16, 53, 156, 72, 58, 102, 62, 42, 54, 16, 138, 64, 4]
    samples, expected = _speak(voice, phonemes), _reference(voice, config, phonemes)
    assert samples.shape == expected.shape
    assert _signal_to_difference_db(expected, samples) > 30


def test_nothing_to_say_is_no_samples() -> None:
    assert _speak(_voice(TINY), []).shape == (0,)


def test_the_same_phonemes_sound_the_same_and_need_no_global_generator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def poisoned(*_: object, **__: object) -> None:
        raise AssertionError("the global generator was used")

    voice = _voice(TINY)
    first = _speak(voice, PHONEMES)
    for name in ("rand", "randn", "rand_like", "randn_like", "normal"):
        monkeypatch.setattr(torch, name, poisoned)
    torch.manual_seed(99)
    assert torch.equal(first, _speak(voice, PHONEMES))
    assert torch.isfinite(first).all()
    assert first.abs().max() > 0


def test_more_phonemes_than_positions_are_spoken_in_parts_and_none_is_lost() -> None:
    phonemes = [5, 6, 7, 16] * 25
    parts = _cut(phonemes, 40)
    assert [p for part in parts for p in part] == phonemes
    assert all(len(part) <= 40 and part[-1] == 16 for part in parts)
    voice = _voice(TINY)
    whole = _speak(voice, phonemes)
    assert torch.equal(whole, torch.cat([_speak(voice, part) for part in parts]))


def test_a_voice_is_a_choice_of_the_config(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    voice = _voice(TINY)
    names = voice.weight_map()
    tensors = {names[n]: v.contiguous() for n, v in voice.state_dict().items()}
    save_file({**tensors, "voices.w": voice.styles + 1}, tmp_path / "model.safetensors")
    other = Voice.build({**TINY, "voice": "w"}, dtype=torch.float32, device=CPU)
    load(other, tmp_path)
    assert torch.equal(other.styles, voice.styles + 1)
    assert not np.array_equal(_speak(other, PHONEMES), _speak(voice, PHONEMES))
