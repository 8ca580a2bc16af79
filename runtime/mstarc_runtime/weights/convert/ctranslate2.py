"""Whisper in CTranslate2's binary form → names and layout of `WhisperForConditionalGeneration`.

The binary is: version, model name, revision, then variables (name, rank, dims, element type, bytes,
data) and aliases of them, little-endian, strings with a 16-bit length and a final zero byte. Fused
projections (`linear_0` of self-attention is q, k, v; `linear_1` of cross-attention is k, v) are
split; k has no bias in Whisper, so the fused bias's k part is dropped.
"""

import json
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mstarc_runtime.weights.convert.store import save_json, save_tensors

_ELEMENT_TYPES: Final = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}
_HEAD_DIM: Final = 64
# Language English, task transcribe, no time stamps: the positions after the start token.
_FORCED: Final = ([1, 50259], [2, 50359], [3, 50363])

Array = NDArray[np.float32]


def convert_whisper(unpacked: Path, out: Path) -> None:
    """Write a multilingual Whisper whose binary is split over `*/data/model.bin.part*`."""
    parts = sorted(unpacked.glob("*/data/model.bin.part*"))
    variables = read_variables(b"".join(part.read_bytes() for part in parts))
    settings = json.loads(next(unpacked.glob("*/data/config.json")).read_text(encoding="utf-8"))
    tensors = dict(_tensors(variables))
    save_tensors(tensors, out)
    save_json(_config(variables, settings), out, "config.json")
    shutil.copyfile(next(unpacked.glob("*/data/tokenizer.json")), out / "tokenizer.json")


@dataclass(slots=True)
class _Reader:
    data: bytes
    offset: int = 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(f"<{form}", self.data, self.offset)
        self.offset += struct.calcsize(form)
        return int(value)

    def text(self) -> str:
        length = self.number("H")
        self.offset += length
        return self.data[self.offset - length : self.offset].rstrip(b"\0").decode("utf-8")

    def array(self) -> Array:
        dims = [self.number("I") for _ in range(self.number("B"))]
        element = np.dtype(_ELEMENT_TYPES[self.number("B")])
        size = self.number("I")
        self.offset += size
        flat = np.frombuffer(self.data, element, size // element.itemsize, self.offset - size)
        return flat.reshape(dims).astype(np.float32)


def read_variables(data: bytes) -> dict[str, Array]:
    """Every variable of a CTranslate2 model, aliases included, as float32."""
    reader = _Reader(data)
    reader.number("I")  # version of the form
    reader.text()  # name of the model's kind
    reader.number("I")  # revision of the kind
    variables: dict[str, Array] = {}
    for _ in range(reader.number("I")):
        name = reader.text()
        variables[name] = reader.array()
    for _ in range(reader.number("I")):
        alias = reader.text()
        variables[alias] = variables[reader.text()]
    assert reader.offset == len(data), "bytes are left after the last alias"
    return variables


def _tensors(variables: dict[str, Array]) -> Iterator[tuple[str, Array]]:
    for side in ("encoder", "decoder"):
        positions = variables[f"{side}/position_encodings/encodings"]
        yield f"model.{side}.embed_positions.weight", positions
        yield from _norm(variables, f"{side}/layer_norm", f"model.{side}.layer_norm")
        for index in range(_layer_count(variables, side)):
            theirs, ours = f"{side}/layer_{index}", f"model.{side}.layers.{index}"
            yield from _layer(variables, theirs, ours)
    for index in (1, 2):
        yield from _linear(variables, f"encoder/conv{index}", f"model.encoder.conv{index}")
    yield "model.decoder.embed_tokens.weight", variables["decoder/embeddings/weight"]


def _layer(variables: dict[str, Array], theirs: str, ours: str) -> Iterator[tuple[str, Array]]:
    attention = f"{theirs}/self_attention"
    yield from _norm(variables, f"{attention}/layer_norm", f"{ours}.self_attn_layer_norm")
    yield from _fused(variables, f"{attention}/linear_0", f"{ours}.self_attn", ("q", "k", "v"))
    yield from _linear(variables, f"{attention}/linear_1", f"{ours}.self_attn.out_proj")
    yield from _norm(variables, f"{theirs}/ffn/layer_norm", f"{ours}.final_layer_norm")
    yield from _linear(variables, f"{theirs}/ffn/linear_0", f"{ours}.fc1")
    yield from _linear(variables, f"{theirs}/ffn/linear_1", f"{ours}.fc2")
    cross = f"{theirs}/attention"
    if f"{cross}/linear_0/weight" in variables:
        yield from _norm(variables, f"{cross}/layer_norm", f"{ours}.encoder_attn_layer_norm")
        yield from _linear(variables, f"{cross}/linear_0", f"{ours}.encoder_attn.q_proj")
        yield from _fused(variables, f"{cross}/linear_1", f"{ours}.encoder_attn", ("k", "v"))
        yield from _linear(variables, f"{cross}/linear_2", f"{ours}.encoder_attn.out_proj")


def _norm(variables: dict[str, Array], theirs: str, ours: str) -> Iterator[tuple[str, Array]]:
    yield f"{ours}.weight", variables[f"{theirs}/gamma"]
    yield f"{ours}.bias", variables[f"{theirs}/beta"]


def _linear(variables: dict[str, Array], theirs: str, ours: str) -> Iterator[tuple[str, Array]]:
    yield f"{ours}.weight", variables[f"{theirs}/weight"]
    yield f"{ours}.bias", variables[f"{theirs}/bias"]


def _fused(
    variables: dict[str, Array], theirs: str, ours: str, parts: tuple[str, ...]
) -> Iterator[tuple[str, Array]]:
    weights = np.split(variables[f"{theirs}/weight"], len(parts))
    biases = np.split(variables[f"{theirs}/bias"], len(parts))
    for part, weight, bias in zip(parts, weights, biases, strict=True):
        yield f"{ours}.{part}_proj.weight", weight
        if part != "k":
            yield f"{ours}.{part}_proj.bias", bias


def _layer_count(variables: dict[str, Array], side: str) -> int:
    return sum(name.startswith(f"{side}/layer_") and name.endswith("ffn/linear_0/weight")
               for name in variables)  # fmt: skip


def _config(variables: dict[str, Array], settings: dict[str, Any]) -> dict[str, Any]:
    width, mels, _ = variables["encoder/conv1/weight"].shape
    return {
        "model_type": "whisper",
        "architectures": ["WhisperForConditionalGeneration"],
        "vocab_size": len(variables["decoder/embeddings/weight"]),
        "num_mel_bins": mels,
        "d_model": width,
        "encoder_layers": _layer_count(variables, "encoder"),
        "decoder_layers": _layer_count(variables, "decoder"),
        "encoder_attention_heads": width // _HEAD_DIM,
        "decoder_attention_heads": width // _HEAD_DIM,
        "encoder_ffn_dim": len(variables["encoder/layer_0/ffn/linear_0/weight"]),
        "decoder_ffn_dim": len(variables["decoder/layer_0/ffn/linear_0/weight"]),
        "max_source_positions": len(variables["encoder/position_encodings/encodings"]),
        "max_target_positions": len(variables["decoder/position_encodings/encodings"]),
        "activation_function": "gelu",
        "bos_token_id": 50257,
        "eos_token_id": 50257,
        "pad_token_id": 50257,
        "decoder_start_token_id": 50258,
        "forced_decoder_ids": [list(pair) for pair in _FORCED],
        "suppress_tokens": settings["suppress_ids"],
        "begin_suppress_tokens": settings["suppress_ids_begin"],
    }
