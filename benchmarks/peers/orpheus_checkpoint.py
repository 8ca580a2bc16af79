"""Checkpoints of Orpheus with random weights, in the layout of the public ones.

Two folders that every server of Orpheus reads: `lm` (Llama in safetensors shards with an index,
config.json, a tokenizer) and `codec` (SNAC as `pytorch_model.bin` and the same as safetensors). The
same seed gives the same bytes on one device: servers that are compared read the same weights.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

DEVIATION = 0.02
LAYERS_A_SHARD = 7

LM: Mapping[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 156940,
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "num_hidden_layers": 28,
    "num_attention_heads": 24,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_act": "silu",
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-05,
    "rope_theta": 500000.0,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}

CODEC: Mapping[str, Any] = {
    "sampling_rate": 24000,
    "encoder_dim": 48,
    "encoder_rates": [2, 4, 8, 8],
    "decoder_dim": 1024,
    "decoder_rates": [8, 8, 4, 2],
    "attn_window_size": None,
    "codebook_size": 4096,
    "codebook_dim": 8,
    "vq_strides": [4, 2, 1],
    "noise": True,
    "depthwise": True,
}


def write_lm(
    folder: Path, config: Mapping[str, Any] = LM, *, seed: int = 0, device: str = "cpu"
) -> None:
    """The language model, bf16, and a tokenizer of one token a byte.

    The head is written too, equal to the embedding: not every reader ties them by the config.
    """
    folder.mkdir(parents=True, exist_ok=True)
    draw = torch.Generator(device).manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        made = torch.empty(shape, dtype=torch.bfloat16, device=device)
        return made.normal_(0.0, DEVIATION, generator=draw).cpu()

    hidden, heads, kv = (
        config[name] for name in ("hidden_size", "num_attention_heads", "num_key_value_heads")
    )
    inner, head_dim = config["intermediate_size"], config["head_dim"]
    shards: list[dict[str, Tensor]] = [
        {"model.embed_tokens.weight": normal(config["vocab_size"], hidden)}
    ]
    for layer in range(config["num_hidden_layers"]):
        if layer % LAYERS_A_SHARD == 0:
            shards.append({})
        at = f"model.layers.{layer}"
        shards[-1] |= {
            f"{at}.input_layernorm.weight": torch.ones(hidden, dtype=torch.bfloat16),
            f"{at}.self_attn.q_proj.weight": normal(heads * head_dim, hidden),
            f"{at}.self_attn.k_proj.weight": normal(kv * head_dim, hidden),
            f"{at}.self_attn.v_proj.weight": normal(kv * head_dim, hidden),
            f"{at}.self_attn.o_proj.weight": normal(hidden, heads * head_dim),
            f"{at}.post_attention_layernorm.weight": torch.ones(hidden, dtype=torch.bfloat16),
            f"{at}.mlp.gate_proj.weight": normal(inner, hidden),
            f"{at}.mlp.up_proj.weight": normal(inner, hidden),
            f"{at}.mlp.down_proj.weight": normal(hidden, inner),
        }
    shards[-1]["model.norm.weight"] = torch.ones(hidden, dtype=torch.bfloat16)
    shards.append({"lm_head.weight": shards[0]["model.embed_tokens.weight"].clone()})
    where: dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        save_file(shard, folder / name, metadata={"format": "pt"})
        where |= dict.fromkeys(shard, name)
    size = sum(t.numel() * t.element_size() for shard in shards for t in shard.values())
    index = {"metadata": {"total_size": size}, "weight_map": dict(sorted(where.items()))}
    _write_json(folder / "model.safetensors.index.json", index)
    _write_json(folder / "config.json", dict(config))
    write_tokenizer(folder)


def write_tokenizer(folder: Path) -> None:
    """A token a byte: every text of a length has as many tokens, whoever reads it."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.save(str(folder / "tokenizer.json"))
    _write_json(
        folder / "tokenizer_config.json",
        {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 131072},
    )


def write_codec(
    folder: Path,
    build: Callable[..., Any],
    config: Mapping[str, Any] = CODEC,
    *,
    seed: int = 1,
) -> None:
    """The codec in float32. `build` is a SNAC class of the public layout: it names the tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = torch.Generator().manual_seed(seed)
    shapes = {name: tensor.shape for name, tensor in build(**config).state_dict().items()}
    tensors = {name: _codec_tensor(name, shape, draw) for name, shape in _sorted(shapes)}
    torch.save(tensors, folder / "pytorch_model.bin")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    _write_json(folder / "config.json", dict(config))


def _sorted(shapes: Mapping[str, torch.Size]) -> Iterator[tuple[str, torch.Size]]:
    # In this order a seed means the same whatever order a class declares its tensors in.
    yield from sorted(shapes.items())


def _codec_tensor(name: str, shape: torch.Size, draw: torch.Generator) -> Tensor:
    if name.endswith("alpha"):
        return torch.ones(shape)
    made = torch.empty(shape).normal_(0.0, DEVIATION, generator=draw)
    # The lengths of filters are above zero, and a filter without one is no filter.
    return made.abs() + DEVIATION if name.endswith("original0") else made


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
