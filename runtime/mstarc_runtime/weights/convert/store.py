"""The files of a converted folder, written so that a full disk is an OSError."""

import errno
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import save_file

Tensors = Mapping[str, NDArray[np.float32]]


def save_tensors(tensors: Tensors, folder: Path) -> None:
    """Write `model.safetensors`, tensors in the order of their names."""
    ordered = {name: np.ascontiguousarray(tensors[name]) for name in sorted(tensors)}
    try:
        save_file(ordered, folder / "model.safetensors", metadata={"format": "pt"})
    except SafetensorError as error:
        if "No space left" in str(error) or "StorageFull" in str(error):
            raise OSError(errno.ENOSPC, "No space left on device") from error
        raise


def save_json(content: Mapping[str, Any], folder: Path, name: str) -> None:
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    (folder / name).write_text(text, encoding="utf-8")
