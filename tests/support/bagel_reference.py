"""What BAGEL's public implementation computes with this project's random weights.

A checkout of github.com/ByteDance-Seed/Bagel (at 056b5fd) → values that tests compare with:

    python -m tests.support.bagel_reference Bagel tests/runtime/parity/bagel.safetensors

It needs einops besides what the tests need, and runs in float32 on a CPU: in a copy of the checkout
float32 stands where bfloat16 stood, attention over ragged rows is torch's, and random numbers come
from the project's counters.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from mstarc_runtime.layers.counter_hash import normal
from tests.support.bagel_cases import (
    CASES,
    SEED,
    SIDES,
    Case,
    own_module,
    sample_image,
    tiny_weights,
)

_OPENS, _CLOSES = "<|im_start|>", "<|im_end|>"
# Letters from here on stand for tokens that the tiny vocabulary has no letter for.
_TOKEN_LETTERS = 0x100


def import_public(checkout: Path) -> None:
    """Makes the checkout's modules importable, in float32 and without the libraries it leaves to
    a GPU."""
    copied = Path(tempfile.mkdtemp()) / "public"
    shutil.copytree(checkout, copied, ignore=shutil.ignore_patterns(".git", "assets"))
    for path in [*copied.glob("modeling/bagel/*.py"), copied / "inferencer.py"]:
        path.write_text(path.read_text().replace("torch.bfloat16", "torch.float32"))
    sys.path.insert(0, str(copied))
    # Before the stand-ins, which transformers must not take for the libraries.
    import_module("transformers.models.siglip.modeling_siglip")
    import_module("transformers.models.siglip.image_processing_siglip")
    import transformers.modeling_rope_utils as rope_utils

    def plain_rope(config: Any, device: Any = None, **_: Any) -> tuple[Tensor, float]:
        dim = config.hidden_size // config.num_attention_heads
        exponents = torch.arange(0, dim, 2, dtype=torch.float32) / dim
        return 1.0 / (config.rope_theta**exponents), 1.0

    # Newer releases have no entry for positions without scaling.
    rope_utils.ROPE_INIT_FUNCTIONS.setdefault("default", plain_rope)
    for name, content in _stand_ins().items():
        module = ModuleType(name)
        vars(module).update(content)
        sys.modules[name] = module


def _stand_ins() -> Mapping[str, Mapping[str, Any]]:
    def resize(image: Any, size: tuple[int, int], how: int, antialias: bool) -> Any:
        return image.resize(size[::-1], how)

    def pixels(image: Any) -> Tensor:
        values = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
        return values.view(image.height, image.width, 3).permute(2, 0, 1).float() / 255

    def to_tensor() -> Any:
        return pixels

    def normalize(mean: list[float], std: list[float], inplace: bool) -> Any:
        return lambda image: (image - mean[0]) / std[0]

    modes = SimpleNamespace(BICUBIC=3, BILINEAR=2)
    transforms = SimpleNamespace(ToTensor=to_tensor, Normalize=normalize)
    return {
        "flash_attn": {"flash_attn_varlen_func": _ragged_attention},
        "cv2": {},
        "torchvision": {"transforms": transforms},
        "torchvision.transforms": {
            "functional": SimpleNamespace(resize=resize),
            "InterpolationMode": modes,
        },
    }


def _ragged_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    causal: bool,
) -> Tensor:
    out = torch.empty_like(q)
    ends = zip(cu_seqlens_q[1:].tolist(), cu_seqlens_k[1:].tolist(), strict=True)
    own, seen = 0, 0
    for own_end, seen_end in ends:
        rows, keys, values = (
            part.transpose(0, 1)[None]
            for part in (q[own:own_end], k[seen:seen_end], v[seen:seen_end])
        )
        mask = torch.ones(own_end - own, seen_end - seen, dtype=torch.bool)
        mask = mask.tril(seen_end - seen - own_end + own) if causal else mask
        attended = functional.scaled_dot_product_attention(
            rows, keys, values, attn_mask=mask, enable_gqa=True
        )
        out[own:own_end] = attended[0].transpose(0, 1)
        own, seen = own_end, seen_end
    return out


class Public:
    """The public model with the tiny sizes and our weights."""

    def __init__(self) -> None:
        transform = import_module("data.transforms").ImageTransform
        coder = import_module("modeling.autoencoder")
        public = import_module("modeling.bagel")
        config = tiny_weights()["llm"]["config"]
        language = public.Qwen2Config(
            **config["llm_config"],
            hidden_act="silu",
            qk_norm=True,
            layer_module="Qwen2MoTDecoderLayer",
            tie_word_embeddings=False,
            freeze_und=False,
            pad_token_id=0,
        )
        layers = config["vit_config"]["num_hidden_layers"] - 1
        vision = public.SiglipVisionConfig(
            **config["vit_config"] | {"num_hidden_layers": layers}, rope=False
        )
        public_sizes = {"scale_factor": 0.3611, "shift_factor": 0.1159, "resolution": 256}
        sizes = coder.AutoEncoderParams(
            **public_sizes, in_channels=3, out_ch=3, **config["vae_config"]
        )
        self.model = public.Bagel(
            public.Qwen2ForCausalLM(language),
            public.SiglipVisionModel(vision),
            public.BagelConfig(
                llm_config=language,
                vit_config=vision,
                vae_config=sizes,
                latent_patch_size=config["latent_patch_size"],
                max_latent_size=config["max_latent_size"],
                vit_max_num_patch_per_side=config["vit_max_num_patch_per_side"],
            ),
        )
        self.model.vit_model.vision_model.embeddings.convert_conv2d_to_linear(vision)
        self.vae = coder.AutoEncoder(sizes)
        self._fill()
        bounds = config["image_bounds"]
        drawn, seen = bounds["drawn"], bounds["seen"]
        special = config["special_tokens"]
        self.words = _Words(special["im_start"], special["im_end"])
        self.inferencer = import_module("inferencer").InterleaveInferencer(
            self.model,
            self.vae,
            self.words,
            transform(drawn["most"], drawn["least"], 16),
            transform(seen["most"], seen["least"], 14),
            {
                "bos_token_id": special["im_start"],
                "eos_token_id": special["im_end"],
                "start_of_image": special["vision_start"],
                "end_of_image": special["vision_end"],
            },
        )

    def _fill(self) -> None:
        """Every parameter of theirs by our weight maps: names and shapes must be the same."""
        encoder = own_module("VaeEncoder", "vae_encoder")
        decoder = own_module("VaeDecoder", "vae_decoder")
        state: dict[str, Tensor] = {}
        shapes = {name: value.shape for name, value in self.model.state_dict().items()}
        shapes |= {name: value.shape for name, value in self.vae.state_dict().items()}
        for module, prefix in (
            (own_module("MixtureOfTransformers", "llm"), ""),
            (own_module("VisionTower", "vit_encoder"), ""),
            (encoder, ""),
            (decoder, "decoder."),
        ):
            parameters = dict(module.named_parameters())
            for own, mapped in module.weight_map().items():
                names = (mapped,) if isinstance(mapped, str) else mapped
                full = [prefix + name for name in names]
                parts = parameters[own].split([shapes[name][0] for name in full])
                for name, part in zip(full, parts, strict=True):
                    assert name not in state or torch.equal(state[name], part), name
                    state[name] = part.clone()
        coders = set(self.vae.state_dict())
        self.vae.load_state_dict({name: state[name] for name in coders})
        self.model.load_state_dict({n: v for n, v in state.items() if n not in coders})
        self.model.eval()
        self.vae.eval()


class _Words:
    """The tiny vocabulary: a letter a token, and letters of our own for tokens without one."""

    def __init__(self, opens: int, closes: int) -> None:
        self._marks = {opens: _OPENS, closes: _CLOSES}

    def encode(self, text: str) -> list[int]:
        codes = [ord(letter) for letter in text]
        return [c - _TOKEN_LETTERS if c >= _TOKEN_LETTERS else c - 32 for c in codes]

    def decode(self, ids: Tensor) -> str:
        return "".join(self._marks.get(i, chr(_TOKEN_LETTERS + i)) for i in ids.tolist())


@contextmanager
def _counted_noise(seed: int) -> Iterator[None]:
    """Random numbers of the public code are those of ours."""
    seeds = torch.tensor([[seed]])

    def drawn(stream: int, shape: Any) -> Tensor:
        count = torch.Size(shape).numel()
        return normal(seeds, stream, torch.arange(count)).view(*shape)

    with (
        patch("modeling.bagel.bagel.torch.randn", lambda *shape: drawn(0, shape)),
        patch("modeling.autoencoder.torch.randn_like", lambda like: drawn(1, like.shape)),
    ):
        yield


def _answered(public: Public, case: Case) -> dict[str, Tensor]:
    """Latents, picture and tokens of a case."""
    options = case.request_options
    caught: dict[str, Tensor] = {}
    draw, say = public.model.generate_image, public.model.generate_text

    def generate_image(**arguments: Any) -> Any:
        drawn = draw(**arguments)
        caught["latents"] = drawn[0]
        return drawn

    def generate_text(**arguments: Any) -> Any:
        said = say(**arguments)
        # The mark that the turn opens with is fed first.
        caught["tokens"] = said[1:, 0].clone()
        return said

    parts = list(case.parts)
    instruction = parts.pop(0) if case.thinks else ""
    with (
        _counted_noise(SEED),
        patch.object(public.model, "generate_image", generate_image),
        patch.object(public.model, "generate_text", generate_text),
        patch("inferencer.GEN_THINK_SYSTEM_PROMPT", instruction),
    ):
        made = public.inferencer.interleave_inference(
            parts,
            think=case.thinks,
            understanding_output=not case.draws,
            max_think_token_n=case.tokens + 1,
            cfg_text_scale=options.get("text_scale", 4.0),
            cfg_img_scale=options.get("image_scale", 1.0),
            cfg_interval=[options.get("guide_from", 0.4), options.get("guide_to", 1.0)],
            timestep_shift=options.get("shift", 3.0),
            num_timesteps=options["steps"],
            cfg_renorm_min=options.get("renorm_min", 0.0),
            cfg_renorm_type=options.get("renorm", "global"),
            image_shapes=(options["height"], options["width"]),
        )
    if case.draws:
        caught["picture"] = _bytes_of(made[-1])
    return {f"case.{case.name}.{name}": value for name, value in caught.items()}


def _bytes_of(image: Any) -> Tensor:
    rows = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return rows.view(image.height, image.width, 3).permute(2, 0, 1).contiguous()


def _parts(public: Public) -> dict[str, Tensor]:
    """The modules, one by one."""
    model, vae = public.model, public.vae
    drawn = public.inferencer.vae_transform.resize_transform(sample_image())
    vit = model.prepare_vit_images(
        [0], [0], [drawn], public.inferencer.vit_transform, public.inferencer.new_token_ids
    )[0]
    patches, places = vit["packed_vit_tokens"], vit["packed_vit_position_ids"]
    seen = model.vit_model(
        packed_pixel_values=patches,
        packed_flattened_position_ids=places,
        cu_seqlens=torch.tensor([0, len(patches)], dtype=torch.int32),
        max_seqlen=len(patches),
    )
    rows = model.connector(seen) + model.vit_pos_embed(places)
    px = public.inferencer.vae_transform(drawn)
    with _counted_noise(SEED):
        latents = vae.encode(px[None])[0]
    h, w = px.shape[1] // 16, px.shape[2] // 16
    cells = latents.view(16, h, 2, w, 2).permute(1, 3, 2, 4, 0).reshape(h * w, 64)
    at = model.get_flattened_position_ids(px.shape[1], px.shape[2], 16, model.max_latent_size)
    recalled = (
        model.vae2llm(cells) + model.time_embedder(torch.tensor([0])) + model.latent_pos_embed(at)
    )
    return {
        "frontend.patches": patches,
        "frontend.places": places,
        "frontend.px": px,
        "vision.rows": rows,
        "encoder.cells": cells,
        "encoder.rows": recalled,
        "decoder.px": vae.decode(latents[None])[0],
        **_guided(public),
        **_sides(),
    }


def _guided(public: Public) -> dict[str, Tensor]:
    """Guidance alone: the public step with given velocities in the place of the model's."""
    model = public.model
    torch.manual_seed(SEED)
    given = [torch.randn(12, 64) for _ in range(3)]
    values = {f"guidance.given.{i}": v for i, v in enumerate(given)}
    for renorm in ("global", "channel", "text_channel"):
        for image_scale in (1.0, 2.0):
            for least in (0.0, 0.7):
                with (
                    patch.object(
                        model.language_model,
                        "forward_inference",
                        side_effect=[SimpleNamespace(packed_query_sequence=v) for v in given],
                    ),
                    patch.object(model, "llm2vae", nn.Identity()),
                    patch.object(
                        model.language_model.model, "enable_taylorseer", False, create=True
                    ),
                ):
                    out = model._forward_flow(
                        x_t=torch.zeros(12, 64),
                        timestep=torch.full((12,), 0.5),
                        packed_vae_token_indexes=torch.arange(12),
                        packed_vae_position_ids=torch.arange(12),
                        packed_text_ids=torch.tensor([0, 1]),
                        packed_text_indexes=torch.tensor([0, 1]),
                        packed_indexes=torch.arange(12),
                        packed_position_ids=torch.zeros(12, dtype=torch.int64),
                        packed_seqlens=torch.tensor([12]),
                        key_values_lens=torch.tensor([0]),
                        past_key_values=None,
                        packed_key_value_indexes=torch.arange(0),
                        cfg_renorm_min=least,
                        cfg_renorm_type=renorm,
                        cfg_text_scale=4.0,
                        cfg_img_scale=image_scale,
                    )
                values[f"guidance.{renorm}.{image_scale}.{least}"] = out
    return values


def _sides() -> dict[str, Tensor]:
    """Which sides images get in the public sizes: drawn (w, h), and from that seen (w, h)."""
    transform = import_module("data.transforms").ImageTransform
    drawn, seen = transform(1024, 512, 16), transform(980, 224, 14)
    found = []
    for side in SIDES:
        image = drawn.resize_transform(Image.new("RGB", side))
        again = drawn.resize_transform(image)
        found.append([*again.size, *seen.resize_transform(image).size])
    return {"frontend.sides": torch.tensor(found)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    import_public(arguments.checkout)
    torch.set_grad_enabled(False)
    public = Public()
    values = _parts(public)
    for case in CASES:
        values |= _answered(public, case)
    save_file({name: value.contiguous() for name, value in values.items()}, arguments.out)
    print(f"{len(values)} values in {arguments.out}, {arguments.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
