"""Code2Wav in one of a few shapes, as graphs need it: the samples of the call as it came."""

import pytest
import torch

from mstarc_runtime.engine.context import StatelessContext
from mstarc_runtime.models.qwen3_omni import Code2Wav

CPU = torch.device("cpu")
CONFIG = {
    "code2wav_config": {
        "codebook_size": 32,
        "hidden_size": 16,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_quantizers": 4,
        "sliding_window": 20,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 512,
        "upsample_rates": [3, 2],
        "upsampling_ratios": [2, 2],
        "decoder_dim": 16,
    }
}


@pytest.fixture(scope="module")
def vocoder() -> Code2Wav:
    made = Code2Wav.build(CONFIG, dtype=torch.float64, device=CPU)
    draw = torch.Generator().manual_seed(2)
    for parameter in made.parameters():
        parameter.normal_(0.0, 0.3, generator=draw)
    return made


@torch.inference_mode()
def test_a_fitted_call_gives_the_same_samples(vocoder: Code2Wav) -> None:
    frames = torch.randint(0, 32, (3, 150, 4), generator=torch.Generator().manual_seed(1))
    shapes = set()
    for old, new in ((0, 4), (4, 8), (12, 16), (28, 25), (53, 25), (78, 25), (103, 25), (128, 7)):
        window = frames[:, : old + new]
        plain = vocoder.decode(StatelessContext(batch=3, device=CPU, old=old), window)
        ctx = StatelessContext(batch=3, device=CPU, old=old)
        fitted = vocoder.fit_decode(ctx, window)
        made = fitted.cut(vocoder.decode(fitted.context, *fitted.arguments))
        torch.testing.assert_close(made, plain, rtol=0, atol=1e-4)
        shapes.add((fitted.context.old, tuple(fitted.arguments[0].shape)))
        assert fitted.arguments[0].shape[0] == 4
    # From some frames on all are alike, and the tail is a call like others.
    assert len(shapes) < 8
    reach = vocoder.pre_transformer.reach + vocoder.frames_for(25 * vocoder.samples_per_frame) - 25
    assert max(old for old, _ in shapes) == reach
