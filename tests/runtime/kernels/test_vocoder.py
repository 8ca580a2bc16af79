"""Code2Wav's kernels make the sound that plain torch makes of the same rows."""

import pytest
import torch

from mstarc_runtime.engine.context import StatelessContext
from mstarc_runtime.models.qwen3_omni import Code2Wav

pytestmark = pytest.mark.gpu

SMALL = {
    "code2wav_config": {
        "codebook_size": 32,
        "hidden_size": 64,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_quantizers": 4,
        "sliding_window": 8,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 512,
        "upsample_rates": [3, 2],
        "upsampling_ratios": [2, 2],
        "decoder_dim": 128,
    }
}
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def vocoder() -> Code2Wav:
    made = Code2Wav.build(SMALL, dtype=torch.float16, device=DEVICE)
    draw = torch.Generator(DEVICE).manual_seed(5)
    for name, parameter in made.named_parameters():
        if parameter.dim() > 1:
            parameter.normal_(0.0, 1.0 / parameter[0].numel() ** 0.5, generator=draw)
        elif "norm" in name or "scale" in name or "gamma" in name:
            parameter.uniform_(0.5, 1.5, generator=draw)
        else:
            parameter.normal_(0.0, 0.2, generator=draw)
    return made


@pytest.mark.parametrize(("batch", "old", "new"), [(1, 0, 3), (3, 0, 1), (2, 2, 4), (2, 20, 5)])
def test_the_sound_is_that_of_plain_torch(batch: int, old: int, new: int) -> None:
    from mstarc_runtime.kernels.vocoder_stack import VocoderStack, is_served

    plain = vocoder()
    assert is_served(plain, torch.float16)
    wanted = plain.samples_per_frame * new
    draw = torch.Generator(DEVICE).manual_seed(1)
    frames = min(old + new, plain.frames_for(wanted))
    rows = torch.randn((batch, frames, 64), generator=draw, device=DEVICE).half()
    with torch.inference_mode():
        made = VocoderStack(plain)(rows, wanted)
        right = plain.float().plain_samples(rows.float(), wanted)
    assert right.std() > 0.01
    length = min(made.shape[1], right.shape[1])
    assert length == (wanted if old else right.shape[1])
    made, right = made[:, -length:], right[:, -length:]
    assert (made - right).square().mean() < 1e-3 * right.square().mean()


def test_chunks_are_the_sound_at_once() -> None:
    served = vocoder()
    frames = torch.randint(0, 32, (2, 40, 4), device=DEVICE)
    with torch.inference_mode():
        at_once = served.decode(StatelessContext(batch=2, device=DEVICE), frames)
        pieces, start = [], 0
        for size in (3, 5, 16, 16):
            old = min(start, 30)
            ctx = StatelessContext(batch=2, device=DEVICE, old=old)
            pieces.append(served.decode(ctx, frames[:, start - old : start + size]))
            start += size
    streamed = torch.cat(pieces, dim=1)
    assert streamed.shape == at_once.shape
    assert (streamed - at_once).square().mean() < 1e-3 * at_once.square().mean()
