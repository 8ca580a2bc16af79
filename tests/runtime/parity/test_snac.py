"""Our SNAC decoder makes the sound that the published package makes of the same codes."""

from typing import Any

import pytest
import torch
from snac import SNAC

from mstarc_runtime.engine.context import StatelessContext
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.models.orpheus import SnacDecoder, level_order
from mstarc_runtime.models.snac import Decoder
from tests.support.parity import CPU, fill

TINY: dict[str, Any] = {
    "sampling_rate": 24000,
    "encoder_dim": 8,
    "encoder_rates": [2, 4, 8, 8],
    "decoder_dim": 64,
    "decoder_rates": [8, 8, 4, 2],
    "attn_window_size": None,
    "codebook_size": 64,
    "codebook_dim": 8,
    "vq_strides": [4, 2, 1],
    "noise": False,
    "depthwise": True,
}
FIRST = 128


def reference(config: dict[str, Any]) -> SNAC:
    torch.manual_seed(3)
    model = SNAC(**config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            # Alphas and lengths away from their first value, which is the same for all.
            if name.endswith(("alpha", "original0")):
                parameter.mul_(1.0 + 0.5 * torch.rand_like(parameter))
    return model


def decoder(config: dict[str, Any], model: SNAC) -> SnacDecoder:
    ours = SnacDecoder.build(config | {"first_code_id": FIRST}, dtype=torch.float32, device=CPU)
    fill(ours, model.state_dict())
    return ours


def decode(ours: SnacDecoder, tokens: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return ours.decode(StatelessContext(batch=len(tokens), device=CPU), tokens)


def tokens_of(windows: int, seed: int = 0) -> torch.Tensor:
    """Ids of frames in which each place has ids of its own."""
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, 64, (windows, 4, 7), generator=generator)
    return (codes + FIRST + 64 * torch.arange(7)).flatten(1)


def published(model: SNAC, tokens: torch.Tensor) -> torch.Tensor:
    """What Orpheus' reference makes of a window of 28 ids, in its own words."""
    frames = (tokens - FIRST).view(len(tokens), 4, 7) - 64 * torch.arange(7)
    first = frames[:, :, 0]
    second = torch.stack([frames[:, :, 1], frames[:, :, 4]], -1).flatten(1)
    third = torch.stack([frames[:, :, 2], frames[:, :, 3], frames[:, :, 5], frames[:, :, 6]], -1)
    with torch.inference_mode():
        sound = model.decode([first, second, third.flatten(1)])
    assert sound.shape[-1] == 8192
    return sound[:, 0, 2048:4096]


@pytest.mark.parametrize("depthwise", [True, False])
def test_windows_equal_the_published_decoder(depthwise: bool) -> None:
    config = TINY | {"depthwise": depthwise}
    model = reference(config)
    ours = decoder(config, model)
    tokens = tokens_of(3)
    sound = decode(ours, tokens)
    assert sound.shape == (3, 2048)
    assert sound.dtype == torch.float32
    torch.testing.assert_close(sound, published(model, tokens), rtol=0, atol=1e-5)
    assert sound.std() > 1e-3


@pytest.mark.parametrize(("first", "count"), [(0, 1), (1, 1), (3, 1), (1, 2), (0, 4)])
@pytest.mark.parametrize("noise", [True, False])
def test_a_part_of_the_sound_is_that_part_of_all_of_it(first: int, count: int, noise: bool) -> None:
    # Strides of both parities: an odd one's outputs lie unevenly about their inputs.
    config = TINY | {"noise": noise, "decoder_rates": [8, 3, 4, 2]}
    codec = Decoder.build(config, dtype=torch.float64, device=CPU)
    draw = torch.Generator().manual_seed(4)
    for name, parameter in codec.named_parameters():
        if name.endswith(("alpha", "scale")):
            parameter.uniform_(0.5, 1.0, generator=draw)
        else:
            parameter.normal_(0.0, 0.3, generator=draw)
    codes = torch.remainder(tokens_of(2) - FIRST, 64)[:, level_order(28)]
    with torch.inference_mode():
        whole = codec.samples(codes)
        part = codec.samples(codes, frames=range(first, first + count))
    size = codec.frame_samples
    assert whole.std() > 0.01
    assert whole.shape == (2, 4 * size)
    wanted = whole[:, first * size : (first + count) * size]
    # What is left is the order in which a library adds.
    torch.testing.assert_close(part, wanted, rtol=0, atol=1e-6)


def test_a_window_alone_has_the_same_bytes_as_in_a_batch_of_its_size() -> None:
    ours = decoder(TINY, reference(TINY))
    tokens = tokens_of(4)
    whole = decode(ours, tokens)
    shuffled = decode(ours, tokens[[2, 0, 3, 1]])
    assert torch.equal(shuffled, whole[[2, 0, 3, 1]])


def test_an_end_mark_among_the_codes_becomes_a_code() -> None:
    ours = decoder(TINY, reference(TINY))
    tokens = tokens_of(1)
    tokens[0, 27] = 2
    assert decode(ours, tokens).isfinite().all()


def test_noise_depends_on_the_codes_only() -> None:
    config = TINY | {"noise": True}
    model = reference(config)
    ours = decoder(config, model)
    tokens = tokens_of(3)
    sound = decode(ours, tokens)
    assert torch.equal(decode(ours, tokens), sound)
    assert torch.equal(decode(ours, tokens[[1, 1, 0]])[0], sound[1])
    assert not torch.equal(decode(ours, tokens_of(3, seed=1)), sound)
    # As loud as the published decoder's, whose noise is another one each time.
    assert sound.std() / published(model, tokens).std() == pytest.approx(1.0, abs=0.2)


def test_a_codec_with_attention_is_refused() -> None:
    with pytest.raises(RuntimeFailure, match="attn_window_size") as caught:
        SnacDecoder.build(TINY | {"attn_window_size": 32}, dtype=torch.float32, device=CPU)
    assert caught.value.code == "MS9109"
