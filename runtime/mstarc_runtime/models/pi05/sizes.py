"""Sizes of the parts: those that `config` gives, or the public ones that it names.

Checkpoints say `paligemma_variant` and `action_expert_variant`; small models for tests list
`text_config`, `expert_config` and `vision_config` instead.
"""

from collections.abc import Mapping
from typing import Any, Final

from mstarc_runtime.layers.config import bad_config

Sizes = Mapping[str, Any]

_HEADS: Final = {
    "num_hidden_layers": 18,
    "num_attention_heads": 8,
    "num_key_value_heads": 1,
    "head_dim": 256,
}
_VARIANTS: Final[Mapping[str, Sizes]] = {
    "gemma_2b": {
        "hidden_size": 2048,
        "intermediate_size": 16384,
        "vocab_size": 257152,
        **_HEADS,
    },
    "gemma_300m": {"hidden_size": 1024, "intermediate_size": 4096, **_HEADS},
}
_VISION: Final = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "patch_size": 14,
    "image_size": 224,
    "projection_dim": 2048,
}


def text_sizes(config: Mapping[str, Any]) -> Sizes:
    """Of the expert that reads."""
    return _named(config, "text_config", "paligemma_variant", "gemma_2b")


def expert_sizes(config: Mapping[str, Any]) -> Sizes:
    """Of the expert that acts."""
    return _named(config, "expert_config", "action_expert_variant", "gemma_300m")


def vision_sizes(config: Mapping[str, Any]) -> Sizes:
    """Of the vision tower."""
    sizes: Sizes = config.get("vision_config", _VISION)
    return sizes


def _named(config: Mapping[str, Any], listed: str, key: str, default: str) -> Sizes:
    if listed in config:
        sizes: Sizes = config[listed]
        return sizes
    variant = config.get(key, default)
    if variant not in _VARIANTS:
        raise bad_config(key, variant, " or ".join(f"`{name}`" for name in _VARIANTS))
    return _VARIANTS[variant]
