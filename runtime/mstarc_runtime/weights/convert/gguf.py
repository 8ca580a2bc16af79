"""A Llama in GGUF, quantised → names, layout and tokenizer files of `LlamaForCausalLM`.

Quantised blocks become float32. GGUF keeps the rows of q and k in an order that suits interleaved
rotary pairs; here they get back the order of rotary halves. The tokenizer is byte-level BPE that
takes digits one by one.
"""

from pathlib import Path
from typing import Any, Final

import numpy as np
from gguf import GGUFReader, dequantize
from numpy.typing import NDArray
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from mstarc_runtime.weights.convert.store import save_json, save_tensors

_NAMES: Final = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_TOP_NAMES: Final = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_CONTROL_TOKEN: Final = 3


def convert_llama(unpacked: Path, out: Path) -> None:
    """Write the one `*.gguf` file in `unpacked` as a Llama checkpoint in float32."""
    reader = GGUFReader(str(next(unpacked.glob("*/*.gguf"))))
    config = _config(reader)
    heads = {
        "attn_q": config["num_attention_heads"],
        "attn_k": config["num_key_value_heads"],
    }
    tensors: dict[str, NDArray[np.float32]] = {}
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        values = values.reshape([int(size) for size in reversed(tensor.shape)])
        kind = tensor.name.split(".")[-2]
        if kind in heads:
            values = _rotary_halves(values, heads[kind])
        tensors[_name(tensor.name)] = values
    config["tie_word_embeddings"] = "lm_head.weight" not in tensors
    save_tensors(tensors, out)
    save_json(config, out, "config.json")
    _write_tokenizer(reader, out)


def _name(theirs: str) -> str:
    kind, suffix = theirs.split(".")[-2:]
    if kind in _TOP_NAMES:
        return f"{_TOP_NAMES[kind]}.{suffix}"
    return f"model.layers.{theirs.split('.')[1]}.{_NAMES[kind]}.{suffix}"


def _rotary_halves(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    rows, width = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, width)
    return pairs.swapaxes(1, 2).reshape(rows, width)


def _config(reader: GGUFReader) -> dict[str, Any]:
    def value(key: str) -> Any:
        return reader.fields[key].contents()

    heads = value("llama.attention.head_count")
    width = value("llama.embedding_length")
    theta = float(value("llama.rope.freq_base"))
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": value("llama.vocab_size"),
        "hidden_size": width,
        "intermediate_size": value("llama.feed_forward_length"),
        "num_hidden_layers": value("llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": value("llama.attention.head_count_kv"),
        "head_dim": width // heads,
        "hidden_act": "silu",
        "max_position_embeddings": value("llama.context_length"),
        # float32 in the file: 9.999999747e-06 was 1e-05 before it was written.
        "rms_norm_eps": float(f"{value('llama.attention.layer_norm_rms_epsilon'):.6g}"),
        "rope_theta": theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": theta},
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": value("tokenizer.ggml.bos_token_id"),
        "eos_token_id": value("tokenizer.ggml.eos_token_id"),
        "pad_token_id": value("tokenizer.ggml.padding_token_id"),
    }


def _write_tokenizer(reader: GGUFReader, out: Path) -> None:
    words = reader.fields["tokenizer.ggml.tokens"].contents()
    kinds = reader.fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(m.split(" ")) for m in reader.fields["tokenizer.ggml.merges"].contents()]
    tokenizer = Tokenizer(models.BPE(vocab={w: i for i, w in enumerate(words)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [w for w, kind in zip(words, kinds, strict=True) if kind == _CONTROL_TOKEN]
    tokenizer.add_special_tokens([AddedToken(w, special=True, normalized=False) for w in special])
    tokenizer.save(str(out / "tokenizer.json"))
    template = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": words[reader.fields["tokenizer.ggml.bos_token_id"].contents()],
        "eos_token": words[reader.fields["tokenizer.ggml.eos_token_id"].contents()],
        "chat_template": reader.fields["tokenizer.chat_template"].contents(),
    }
    save_json(template, out, "tokenizer_config.json")
