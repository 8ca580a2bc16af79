"""The spectrogram equals that of `transformers`."""

import numpy as np
import pytest
import torch

from mstarc_runtime.media.log_mel import log_mel

transformers = pytest.importorskip("transformers")


@pytest.mark.parametrize("mels", [80, 128])
@pytest.mark.parametrize("length", [1, 16000, 480000])
def test_the_spectrogram_equals_transformers(mels: int, length: int) -> None:
    random = np.random.default_rng(length)
    samples = (0.1 * random.standard_normal(length)).astype(np.float32)
    reference = transformers.WhisperFeatureExtractor(feature_size=mels)
    expected = reference(samples, sampling_rate=16000, return_tensors="pt").input_features[0]
    torch.testing.assert_close(log_mel(samples, mels), expected, rtol=0, atol=2e-5)
