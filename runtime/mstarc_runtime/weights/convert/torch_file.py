"""A published `.pt` file → a folder of safetensors and a config.json, by a command:

    python -m mstarc_runtime.weights.convert.torch_file vjepa2-ac-vitg.pt FOLDER \\
        --config sizes.json --only encoder --only predictor --without module. --without backbone.

Tensors inside of tables get the tables' names before their own, with dots between. Only tensors and
plain values are read: a file that would run code is refused.
"""

import argparse
import pickle
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from mstarc_runtime.errors import RuntimeFailure, not_opened, render
from mstarc_runtime.weights.load import read_json


def convert_file(
    path: Path, folder: Path, *, config: Path, only: Sequence[str] = (), without: Sequence[str] = ()
) -> int:
    """Writes the folder; how many tensors it has.

    `only` are the outer tables that are taken (all, if none is named), `without` what is left out
    of names. Fails with MS9201, MS9104 or MS9107.
    """
    sizes = read_json(config)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except OSError as error:
        raise not_opened(path, error) from error
    except (RuntimeError, ValueError, EOFError, pickle.UnpicklingError) as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise RuntimeFailure(
            "MS9107", f"`{path}` is no file of tensors alone", notes=[said[0]]
        ) from error
    tensors: dict[str, Tensor] = {}
    for full, tensor in _tensors(content, ""):
        if only and full.partition(".")[0] not in only:
            continue
        name = full
        for part in without:
            name = name.replace(part, "")
        if name in tensors:
            raise RuntimeFailure("MS9107", f"two tensors of `{path}` would be `{name}`")
        tensors[name] = tensor.contiguous()
    if not tensors:
        raise RuntimeFailure("MS9104", f"`{path}` has none of these tensors")
    folder.mkdir(parents=True, exist_ok=True)
    # Tensors that share memory in the file are written one by one.
    own = {name: tensor.clone() for name, tensor in tensors.items()}
    save_file(own, folder / "model.safetensors", metadata={"format": "pt"})
    text = config.read_text(encoding="utf-8")
    assert sizes, "an empty config.json serves no model"
    (folder / "config.json").write_text(text, encoding="utf-8")
    return len(tensors)


def _tensors(content: Any, before: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(content, Tensor):
        yield before, content
    elif isinstance(content, Mapping):
        for name, value in content.items():
            yield from _tensors(value, f"{before}.{name}" if before else str(name))


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="mstarc_runtime.weights.convert.torch_file")
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--config", type=Path, required=True, help="becomes the config.json")
    parser.add_argument("--only", action="append", default=[], help="an outer table to take")
    parser.add_argument("--without", action="append", default=[], help="left out of names")
    given = parser.parse_args(words)
    try:
        count = convert_file(
            given.file, given.folder, config=given.config, only=given.only, without=given.without
        )
    except RuntimeFailure as failure:
        sys.stderr.write(render(failure) + "\n")
        return 2
    sys.stderr.write(f"{count} tensors in {given.folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
