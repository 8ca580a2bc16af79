"""The spectrogram equals that of `transformers`."""

import numpy as np
import pytest
import torch

from mstarc_runtime.media.log_mel import log_mel, spectrogram

transformers = pytest.importorskip("transformers")


@pytest.mark.parametrize("mels", [80, 128])
@pytest.mark.parametrize("length", [1, 16000, 480000])
def test_the_spectrogram_equals_transformers(mels: int, length: int) -> None:
    random = np.random.default_rng(length)
    samples = (0.1 * random.standard_normal(length)).astype(np.float32)
    reference = transformers.WhisperFeatureExtractor(feature_size=mels)
    expected = reference(samples, sampling_rate=16000, return_tensors="pt").input_features[0]
    torch.testing.assert_close(log_mel(samples, mels), expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("length", [400, 16000, 16093, 100000])
def test_the_spectrogram_of_what_there_is_equals_transformers(length: int) -> None:
    random = np.random.default_rng(length)
    samples = (0.1 * random.standard_normal(length)).astype(np.float32)
    reference = transformers.WhisperFeatureExtractor(feature_size=128)
    expected = reference(
        samples, sampling_rate=16000, padding=True, truncation=False, return_tensors="pt"
    ).input_features[0]
    made = spectrogram(samples, 128)
    assert made.shape == (128, length // 160)
    torch.testing.assert_close(made, expected[:, : made.shape[1]], rtol=0, atol=2e-5)


def test_less_than_a_window_is_filled_up() -> None:
    assert spectrogram(np.zeros(3, np.float32), 128).shape == (128, 2)
