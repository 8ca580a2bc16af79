"""The public Kokoro module, as a reference: its wheel is fetched, pinned, and imported on its own.

The package's `__init__` wants a phonemiser with a large dependency tree; only its model files are
needed, and of what they import, a logger and an attribute library are stood in for.
"""

import importlib
import sys
import types
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest import mock

import pytest
import torch

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.settings import read_settings
from mstarc_runtime.weights.download import download_wheels
from mstarc_runtime.weights.progress import progress_to
from mstarc_runtime.weights.sources import Wheel

WHEEL = Wheel(
    project="kokoro",
    version="0.9.4",
    sha256="a129dc6364a286bd6a92c396e9862459d3d3e45f2c15596ed5a94dcee5789efd",
    size_bytes=32592,
)


@cache
def _model_module() -> types.ModuleType | str:
    folder = read_settings().cache_dir / "test-references"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (wheel,) = download_wheels([WHEEL], folder, progress_to())
    except (RuntimeFailure, OSError) as failure:
        return f"the public Kokoro module cannot be had: {failure}"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "kokoro-0.9.4")
    package = types.ModuleType("kokoro")
    package.__path__ = [str(folder / "kokoro-0.9.4" / "kokoro")]
    stand_ins: dict[str, Any] = {
        "kokoro": package,
        "attr": mock.MagicMock(),
        "loguru": mock.MagicMock(),
    }
    # Only these names: what else is imported on the way stays imported, as it must.
    hidden = {name: sys.modules.get(name) for name in stand_ins}
    sys.modules.update(stand_ins)
    try:
        return importlib.import_module("kokoro.model")
    finally:
        for name, module in hidden.items():
            del sys.modules[name]
            if module is not None:
                sys.modules[name] = module


def reference_kokoro(config: Mapping[str, Any]) -> Any:
    """The public model with plain convolutions; its weights are for the caller to fill."""
    module = _model_module()
    if isinstance(module, str):
        pytest.skip(module)
    full = {"vocab": {}, "dropout": 0.0, "n_mels": 80, **config}
    with mock.patch("torch.load", return_value={}):
        model = module.KModel(repo_id="none", config=full, model="none").eval()
    for layer in model.modules():
        if hasattr(layer, "weight_g"):
            torch.nn.utils.remove_weight_norm(layer)
    return model


@contextmanager
def noise(values: Callable[[int], torch.Tensor]) -> Iterator[None]:
    """The reference draws its noise from `values(count)`, laid out [harmonics, time]."""

    def drawn(like: torch.Tensor) -> torch.Tensor:
        batch, length, width = like.shape
        return values(like.numel()).view(batch, width, length).transpose(1, 2)

    with mock.patch("torch.randn_like", side_effect=drawn):
        yield
