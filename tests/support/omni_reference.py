"""A tiny Qwen3-Omni of `transformers` with lively random weights, saved as a checkpoint.

The sizes are those of `specs/tiny/qwen3_omni.yaml`, which its config is read from. `Reference`
answers what our parts and plans are compared with.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

ROOT = Path(__file__).parents[2]
TINY = ROOT / "specs" / "tiny" / "qwen3_omni.yaml"


def tiny_config() -> dict[str, Any]:
    """The model's config.json of the sizes file, whole."""
    config: dict[str, Any] = yaml.safe_load(TINY.read_text())["weights"]["frontend"]["config"]
    return config


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Tokens of the reply, codes [groups, F] and samples f32[N]."""

    tokens: list[int]
    codes: Tensor | None
    samples: Tensor | None


class Reference:
    """The reference model, its weights in `folder`."""

    def __init__(self, folder: Path) -> None:
        from transformers import Qwen3OmniMoeConfig, Qwen3OmniMoeForConditionalGeneration

        torch.manual_seed(3)
        self.model = Qwen3OmniMoeForConditionalGeneration(Qwen3OmniMoeConfig(**tiny_config()))
        self.model.eval().requires_grad_(False)
        for name, parameter in self.model.named_parameters():
            _enliven(name, parameter)
        # So that some replies end by themselves.
        self.model.thinker.lm_head.weight[tiny_config()["im_end_token_id"]] *= 2.5
        self.folder = folder
        self.model.save_pretrained(folder, max_shard_size="500KB")
        # transformers 5.17 asks the Talker's config for it where a request has sound and pictures.
        self.model.config.talker_config.audio_config = self.model.config.thinker_config.audio_config

    def tower(self, name: str) -> Any:
        """A tower of the Thinker; newer releases than 5.17 keep it one module further in."""
        thinker = self.model.thinker
        return getattr(thinker if hasattr(thinker, name) else thinker.model, name)

    def answer(
        self, ids: Sequence[int], *, tokens: int, frames: int, eos: int | None = None, **media: Any
    ) -> Answer:
        """The greedy answer to `ids`: at most so many tokens, and frames of speech if not 0."""
        given = torch.tensor([list(ids)])
        more: dict[str, Any] = {"talker_max_new_tokens": frames + 1, "talker_do_sample": False}
        heard: list[Tensor] = []
        keep = self.model.code2wav.register_forward_pre_hook(
            lambda module, arguments: heard.append(arguments[0])
        )
        made = self.model.generate(
            input_ids=given,
            thinker_max_new_tokens=tokens,
            thinker_eos_token_id=eos,
            thinker_do_sample=False,
            return_audio=frames > 0,
            attention_mask=torch.ones_like(given),
            **(more if frames else {}),
            **media,
        )
        keep.remove()
        sequences, samples = made if frames else (made, None)
        reply = sequences[0, given.shape[1] :].tolist()
        return Answer(
            tokens=[token for token in reply if token != eos],
            codes=heard[0][0] if heard else None,
            samples=None if samples is None else samples.flatten(),
        )


@torch.no_grad()
def _enliven(name: str, parameter: Tensor) -> None:
    """Weights with which every part of the model has a say in what comes out."""
    if "scale" in name or "gamma" in name:
        parameter.uniform_(0.2, 0.4)
    elif name.endswith(("alpha", "beta")):
        parameter.uniform_(-0.3, 0.3)
    elif parameter.dim() >= 2 and "embed" in name:
        parameter.normal_(0.0, 1.0)
    elif parameter.dim() >= 2:
        is_stack = name.endswith(("gate_up_proj", "down_proj"))
        fan_in = parameter.shape[-1] if is_stack else parameter[0].numel()
        parameter.normal_(0.0, (0.5 if "code2wav" in name else 1.5) / fan_in**0.5)
    elif "norm" in name and name.endswith("weight"):
        parameter.uniform_(0.7, 1.3)
    else:
        parameter.normal_(0.0, 0.1)
