"""SNAC's kernels make the sound that plain torch makes of the same codes."""

from typing import Any

import pytest
import torch
from torch import Tensor

from mstarc_runtime.layers.span import Span
from mstarc_runtime.models.snac import Decoder

pytestmark = pytest.mark.gpu

FRAMES = 4
SMALL: dict[str, Any] = {
    "sampling_rate": 24000,
    "encoder_dim": 8,
    "encoder_rates": [2, 4, 8, 8],
    "latent_dim": 64,
    "decoder_dim": 1024,
    # An odd stride too, whose outputs lie unevenly about their inputs.
    "decoder_rates": [2, 2, 3, 2],
    "attn_window_size": None,
    "codebook_size": 64,
    "codebook_dim": 8,
    "vq_strides": [4, 2, 1],
    "depthwise": True,
}


def decoder_of(*, noise: bool = True, **more: Any) -> Decoder:
    decoder = Decoder(
        SMALL | {"noise": noise} | more, dtype=torch.float32, device=torch.device("cuda")
    )
    draw = torch.Generator("cuda").manual_seed(5)
    for name, parameter in decoder.named_parameters():
        if name.endswith("alpha"):
            parameter.uniform_(0.5, 1.5, generator=draw)
        elif name.endswith("scale"):
            parameter.uniform_(0.3, 0.6, generator=draw)
        else:
            parameter.normal_(0.0, 0.3, generator=draw)
    return decoder


def codes_of(batch: int, seed: int = 0) -> Tensor:
    draw = torch.Generator("cuda").manual_seed(seed)
    return torch.randint(0, 64, (batch, FRAMES * 7), generator=draw, device="cuda")


def spans_of(decoder: Decoder) -> dict[str, Span]:
    length = FRAMES * decoder.frame_samples
    return {
        "second": Span(begin=decoder.frame_samples, end=2 * decoder.frame_samples, length=length),
        "last": Span(begin=length - 5, end=length, length=length),
        "whole": Span(begin=0, end=length, length=length),
    }


@pytest.mark.parametrize("noise", [True, False])
@pytest.mark.parametrize("part", ["second", "last", "whole"])
@pytest.mark.parametrize("batch", [1, 5])
def test_the_sound_is_that_of_plain_torch(batch: int, part: str, noise: bool) -> None:
    from mstarc_runtime.kernels.codec_stack import FULL, HALF, CodecStack

    decoder, codes = decoder_of(noise=noise), codes_of(batch)
    wanted = spans_of(decoder)[part]
    with torch.inference_mode(), torch.backends.cudnn.flags(allow_tf32=False):
        right = decoder.plain_samples(codes, wanted)
        full = CodecStack(decoder, FULL)(codes, wanted)
        half = CodecStack(decoder, HALF)(codes, wanted)
    assert right.std() > 0.03
    torch.testing.assert_close(full, right, rtol=0, atol=5e-5)
    # 50 dB; random weights let small errors grow more than trained ones do.
    assert (half - right).square().mean() < 1e-5 * right.square().mean()


def test_a_window_has_the_same_bytes_in_any_company_and_wherever_it_is_cut() -> None:
    from mstarc_runtime.kernels.codec_stack import CodecStack

    decoder = decoder_of()
    stack, numbers = CodecStack(decoder), codes_of(6)
    spans = spans_of(decoder)
    with torch.inference_mode():
        sound = stack(numbers, spans["second"])
        order = torch.tensor([4, 0, 5, 2, 1, 3], device="cuda")
        assert torch.equal(stack(numbers[order], spans["second"]), sound[order])
        whole = stack(numbers, spans["whole"])
    size = decoder.frame_samples
    assert torch.equal(whole[:, size : 2 * size], sound)


def test_a_graph_replays_what_a_call_makes() -> None:
    decoder, codes = decoder_of(), codes_of(3)
    with torch.inference_mode():
        called = decoder.samples(codes, frames=range(1, 2)).clone()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = decoder.samples(codes, frames=range(1, 2))
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, called)
        codes.copy_(codes_of(3, seed=1))
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, decoder.samples(codes, frames=range(1, 2)))


def test_decoders_that_the_kernels_do_not_serve_run_as_plain_torch() -> None:
    for config in ({"depthwise": False}, {"decoder_dim": 96}):
        decoder, codes = decoder_of(**config), codes_of(2)
        with torch.inference_mode():
            sound = decoder.samples(codes, frames=range(1, 2))
            wanted = spans_of(decoder)["second"]
            right = decoder.plain_samples(codes, wanted)
        assert decoder._stack is False
        torch.testing.assert_close(sound, right)
