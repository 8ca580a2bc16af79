"""Parameters of a model, counted from a checkpoint's config.json.

A section of the file is a stack of layers if it says how wide and how many they are; it has, a
layer, the four projections of attention (fewer heads of keys and values are smaller), two or, where
the product is gated, three matrices of a feed-forward, those of every expert of a mixture; and the
rows of its vocabulary, twice unless they are tied. What is small beside these (norms, biases, a
convolution) is left out. Sections inside a section are counted with it.

>>> parameters_of_config({"hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2,
...                       "intermediate_size": 8, "hidden_act": "silu"})
160
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_WIDTH = ("hidden_size", "d_model", "n_embd", "hidden_dim", "dim")
_DEPTH = ("num_hidden_layers", "num_layers", "n_layer", "depth", "n_layers")
_HEADS = ("num_attention_heads", "num_heads", "n_head", "encoder_attention_heads")
_INNER = ("intermediate_size", "ffn_dim", "d_ff", "encoder_ffn_dim", "mlp_dim")
_GATED = ("silu", "swiglu", "gelu_pytorch_tanh_gated", "gated-gelu")


def parameters_of_config(config: Mapping[str, Any], under: str = "") -> int | None:
    """Parameters of the part that tensors below `under` make up; none where it says no sizes.

    `thinker.visual.` is the section `vision_config` inside `thinker_config`, where they are there.
    """
    section = config
    for word in under.split("."):
        inner = _section(section, word)
        if inner is not None:
            section = inner
    counts = list(_counts(section))
    return sum(counts) if counts else None


_OTHER_WORDS: Mapping[str, tuple[str, ...]] = {
    "visual": ("vision",),
    "vision_tower": ("vision",),
    "audio_tower": ("audio",),
    "language_model": ("text", "llm", "language"),
}


def _section(config: Mapping[str, Any], word: str) -> Mapping[str, Any] | None:
    for name in (word, *_OTHER_WORDS.get(word, ())):
        found = config.get(f"{name}_config", config.get(name))
        if name and isinstance(found, Mapping):
            return found
    return None


def _counts(section: Mapping[str, Any]) -> Iterator[int]:
    own = _stack(section)
    if own is not None:
        yield own
    for value in section.values():
        if isinstance(value, Mapping):
            yield from _counts(value)


def _first(section: Mapping[str, Any], names: Sequence[str]) -> int | None:
    for name in names:
        value = section.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _stack(section: Mapping[str, Any]) -> int | None:
    width, layers = _first(section, _WIDTH), _first(section, _DEPTH)
    encoder, decoder = section.get("encoder_layers"), section.get("decoder_layers")
    if layers is None and (isinstance(encoder, int) or isinstance(decoder, int)):
        # A decoder's layer attends twice: to itself and to what the encoder made.
        layers = (encoder or 0) + (decoder or 0)
    heads = _first(section, _HEADS)
    head_dim = _first(section, ("head_dim", "attention_head_dim", "d_kv"))
    if width is None and heads is not None and head_dim is not None:
        width = heads * head_dim
    if width is None or layers is None:
        return None
    heads = heads or 1
    head_dim = head_dim or width // heads
    kv_heads = _first(section, ("num_key_value_heads",)) or heads
    attention = 2 * width * heads * head_dim + 2 * width * kv_heads * head_dim
    crossed = (decoder or 0) * attention if isinstance(decoder, int) else 0
    parameters = layers * (attention + _feed_forward(section, width)) + crossed
    vocabulary = section.get("vocab_size")
    if isinstance(vocabulary, int):
        tied = section.get("tie_word_embeddings", False) is True
        parameters += vocabulary * width * (1 if tied else 2)
    return parameters


def _feed_forward(section: Mapping[str, Any], width: int) -> int:
    """Parameters of one layer's feed-forward, or of all its experts."""
    inner = _first(section, _INNER) or 4 * width
    experts = _first(section, ("num_experts", "num_local_experts", "n_routed_experts"))
    if experts:
        each = _first(section, ("moe_intermediate_size",)) or inner
        shared = section.get("shared_expert_intermediate_size") or 0
        return 3 * width * (experts * each + int(shared)) + width * experts
    act = section.get("hidden_act", section.get("activation_function"))
    gated = "num_key_value_heads" in section or act in _GATED
    return (3 if gated else 2) * width * inner
