"""What is changed inside `mstar-ai` 0.2.1 so that it serves Qwen3-Omni with no checkpoint.

`qwen3_omni.py` lays this beside a copy of the peer, whose modules import it at their ends: in the
peer's processes there are its packages and torch, and nothing of ours. What it takes is in the
environment: `MSTARC_PEER_FOLDER`, a folder with config.json and a tokenizer;
`MSTARC_PEER_BATCHES` and `MSTARC_PEER_PROMPTS`, sizes of batches and of prompts to capture; and
`MSTARC_PEER_EMBEDDING`, rows and columns of the Thinker's embedding.
`MSTARC_PEER_OP` may name a library with the peer's kernel, built before.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

DEVIATION = 0.02
# The Thinker's embedding, which the Talker's loader asks for by its public name.
_EMBEDDING = "thinker.model.embed_tokens"
_PARTS = "mstar.model.qwen3_omni.submodules"
# As many prompts as the peer reads together.
_MOST_PROMPTS = 4


def local_folder(_repository: str, **_how: Any) -> str:
    """Where config.json and the tokenizer are, instead of a snapshot of a repository."""
    return os.environ["MSTARC_PEER_FOLDER"]


def random_weights(module: nn.Module, _weights: Iterable[object], **_how: Any) -> set[str]:
    """Norms are one, biases zero, all else is drawn on the module's device. Reads no weights."""
    names = set()
    for name, parameter in module.named_parameters():
        names.add(name)
        with torch.no_grad():
            if parameter.ndim > 1:
                parameter.normal_(0.0, DEVIATION)
            else:
                parameter.fill_(0.0 if name.endswith("bias") else 1.0)
    return names


def random_modules(*, modules: Sequence[Any], device: str, **_how: Any) -> None:
    """Modules that were drawn when they were made go to their device."""
    for entry in modules:
        entry.module.to(device)


def random_embedding(_folder: str, *, device: str, prefix: str) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a checkpoint: none but the Thinker's embedding, where that alone is asked."""
    if prefix == _EMBEDDING:
        shape = [int(size) for size in os.environ["MSTARC_PEER_EMBEDDING"].split(",")]
        yield f"{_EMBEDDING}.weight", torch.empty(shape, device=device).normal_(0.0, DEVIATION)


def speech_from_text(model: type[Any]) -> None:
    """A model that sees and hears nothing, and lays out prompts by its tokenizer's template."""
    begun = model.__init__

    def begin(self: Any, *values: Any, **named: Any) -> None:
        begun(self, *values, **named)
        self._processor = self.tokenizer

    def part(kind: str, encoder: str) -> Callable[..., Any]:
        def build(self: Any, _device: str) -> Any:
            made = getattr(import_module(_PARTS), kind)
            return made(**{encoder: nn.Identity(), "config": self.config})

        return build

    model.__init__ = begin
    model._create_audio_encoder_submodule = part("AudioEncoderSubmodule", "audio_encoder")
    model._create_vision_encoder_submodule = part("VisionEncoderSubmodule", "vision_encoder")


def fewer_captures(*parts: type[Any]) -> None:
    """Parts capture graphs of the sizes that are measured, and none for pictures."""
    for part in parts:
        part.get_cuda_graph_configs = _fewer(part.get_cuda_graph_configs)


def _fewer(given: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    def get_cuda_graph_configs(self: Any, *values: Any, **named: Any) -> list[Any]:
        batches = _sizes("MSTARC_PEER_BATCHES")
        configs = [
            config
            for config in given(self, *values, **named)
            if config.capture_graph_walk != "prefill_vision"
        ]
        for config in configs:
            if hasattr(config, "capture_token_lengths"):
                config.capture_token_lengths = _sizes("MSTARC_PEER_PROMPTS")
                together = sorted({min(size, _MOST_PROMPTS) for size in batches})
                # The Talker reads one prompt at a time.
                is_alone = config.capture_graph_walk == "talker_prefill"
                config.capture_batch_sizes = [1] if is_alone else together
            else:
                config.capture_batch_sizes = batches
        return configs

    return get_cuda_graph_configs


def built_before(build: Callable[[], bool]) -> Callable[[], bool]:
    """Whether the kernel that sorts rows by experts is there: of a library, or built now."""
    path = os.environ.get("MSTARC_PEER_OP")
    if path is None:
        return build

    @cache
    def loaded() -> bool:
        torch.ops.load_library(path)
        return hasattr(torch.ops._mstar_moe_C, "moe_align_block_size")

    return loaded


def never_ending(talker: type[Any]) -> None:
    """The Talker never draws its end, which random weights would have it do at any frame."""
    given = talker._get_suppress_mask

    def mask_of(self: Any) -> Tensor:
        mask: Tensor = given(self)
        mask[self.config.talker.codec_eos_token_id] = True
        return mask

    talker._get_suppress_mask = mask_of


def _sizes(name: str) -> list[int]:
    return [int(size) for size in os.environ[name].split(",")]
