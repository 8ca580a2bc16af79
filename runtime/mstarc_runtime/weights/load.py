"""A module's parameters from a folder of safetensors, by name.

`module.weight_map()` says which tensors of the checkpoint each parameter or buffer is made of
(several are joined on dim 0, as in a fused projection); without that method the names are the
same. Values are cast to the parameter's dtype and put on its device. `module.weight_files` names
files that are read as well where the checkpoint's index leaves them out.

What must not pass unseen is an error: a tensor that is not there (MS9104), one of another shape
(MS9105), a file changed since it was made (MS9103), and a tensor of a layer that the module has
but that no parameter takes, such as a bias that the module was built without (MS9106).
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.layers.shard import Portion, portions
from mstarc_runtime.weights.manifest import check_file

Names = str | tuple[str, ...]


def read_config(folder: Path) -> dict[str, Any]:
    """The checkpoint's `config.json`. Fails with MS9104 or MS9107."""
    return read_json(folder / "config.json")


def read_json(path: Path) -> dict[str, Any]:
    """An object in a file of a checkpoint. Fails with MS9104 or MS9107."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RuntimeFailure("MS9104", f"`{path}` is not there") from error
    except (OSError, ValueError) as error:
        raise RuntimeFailure("MS9107", f"`{path}` can't be read", notes=[str(error)]) from error
    if not isinstance(content, dict):
        raise RuntimeFailure("MS9107", f"`{path}` is not a JSON object")
    return content


@torch.no_grad()
def load(
    module: nn.Module, folder: Path, *, under: str = "", device: torch.device | None = None
) -> None:
    """Fill every parameter and mapped buffer of `module` from `folder`, in place.

    `under` is the prefix of the module's tensors in the checkpoint; a name that begins with `/` is
    whole without it. Parameters on the meta device
    are made on `device` (the CPU if it is None).
    """
    wanted = weight_map(module)
    extra = [folder / name for name in getattr(module, "weight_files", ())]
    with ExitStack() as stack:
        shards = {
            path: stack.enter_context(_open(path, folder))
            for path in dict.fromkeys([*_shard_paths(folder), *extra])
        }
        whole = {
            name: (shard, name)
            for shard in shards.values()
            for name in shard.keys()  # noqa: SIM118 - a safetensors file is no mapping
        }
        where = {n.removeprefix(under): at for n, at in whole.items() if n.startswith(under)}
        where |= {f"/{name}": at for name, at in whole.items()}
        _check_left_over(module, wanted, where, folder)
        held = portions(module)
        for own, names in wanted.items():
            found = [_find(name, where, own, folder, under) for name in _as_tuple(names)]
            if own in held:
                value = _read_portion(held[own], found, names, own)
            else:
                parts = [shard.get_tensor(name) for shard, name in found]
                value = parts[0] if len(parts) == 1 else _joined(parts, _as_tuple(names), own)
            _assign(module, own, value, names, device)


def weight_map(module: nn.Module) -> Mapping[str, Names]:
    """Own name → checkpoint name(s), the module's own saying or the identity."""
    declared = getattr(module, "weight_map", None)
    if declared is not None:
        mapped: Mapping[str, Names] = declared()
        return mapped
    return {name: name for name, _ in module.named_parameters()}


def _as_tuple(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


def _shard_paths(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.exists():
        placed = read_json(index).get("weight_map")
        if not isinstance(placed, dict) or not all(isinstance(n, str) for n in placed.values()):
            raise RuntimeFailure("MS9107", f"`{index}` names no shards")
        return [folder / name for name in sorted(set(placed.values()))]
    paths = sorted(folder.glob("*.safetensors"))
    if not paths:
        raise RuntimeFailure(
            "MS9104",
            f"`{folder}` has no safetensors files",
            helps=["pickled checkpoints (.bin, .pt, .pth) are not read; convert them first"],
        )
    return paths


def _open(path: Path, folder: Path) -> Any:
    try:
        check_file(path, folder)
        return safe_open(path, framework="pt")
    except FileNotFoundError as error:
        raise RuntimeFailure("MS9104", f"the shard `{path}` is not there") from error
    except (OSError, SafetensorError) as error:
        raise RuntimeFailure(
            "MS9107", f"`{path}` is not a whole safetensors file", notes=[str(error)]
        ) from error


def _find(
    name: str, where: Mapping[str, tuple[Any, str]], own: str, folder: Path, under: str
) -> tuple[Any, str]:
    """The file that holds a tensor, and its whole name there."""
    if name not in where:
        raise RuntimeFailure(
            "MS9104",
            f"`{under}{name}` is not in `{folder}`",
            notes=[f"it is needed for the parameter `{own}`"],
        )
    return where[name]


def _read_portion(portion: Portion, found: list[tuple[Any, str]], names: Names, own: str) -> Tensor:
    """What is held of tensors that are one whole parameter, one behind the other; nothing else of
    them is read."""
    slices = [shard.get_slice(name) for shard, name in found]
    shapes = [tuple(piece.get_shape()) for piece in slices]
    inner = {shape[1:] for shape in shapes}
    whole = (sum(shape[0] for shape in shapes), *shapes[0][1:])
    if len(inner) > 1 or whole != portion.whole:
        raise _wrong_shape(names, own, whole, portion.whole)
    if portion.dim:
        columns = [piece[:, start:stop] for piece in slices for start, stop in portion.ranges]
        assert portion.dim == 1 and len(slices) == len(columns), f"{own} is cut too finely"
        return torch.cat(columns)
    parts: list[Tensor] = []
    for start, stop in portion.ranges:
        first = 0
        for piece, shape in zip(slices, shapes, strict=True):
            begin, end = max(start, first) - first, min(stop, first + shape[0]) - first
            if begin < end:
                parts.append(piece[begin:end])
            first += shape[0]
    return torch.cat(parts)


def _joined(parts: list[Tensor], names: tuple[str, ...], own: str) -> Tensor:
    rows = {tuple(part.shape[1:]) for part in parts}
    if len(rows) == 1 and all(part.dim() for part in parts):
        return torch.cat(parts)
    shapes = [f"`{name}` is {list(part.shape)}" for name, part in zip(names, parts, strict=True)]
    raise RuntimeFailure(
        "MS9105",
        f"the tensors of the parameter `{own}` can't be joined",
        notes=[", ".join(shapes)],
        helps=["the checkpoint and its config.json are not of one model"],
    )


def _assign(
    module: nn.Module, own: str, value: Tensor, names: Names, device: torch.device | None
) -> None:
    parent_name, _, leaf = own.rpartition(".")
    parent = module.get_submodule(parent_name)
    target: Tensor = getattr(parent, leaf)
    if target.shape != value.shape:
        raise _wrong_shape(names, own, value.shape, target.shape)
    if not target.is_meta:
        target.copy_(value)
        return
    made = value.to(device=device or torch.device("cpu"), dtype=target.dtype)
    if isinstance(target, nn.Parameter):
        setattr(parent, leaf, nn.Parameter(made, requires_grad=target.requires_grad))
    else:
        setattr(parent, leaf, made)


def _wrong_shape(
    names: Names, own: str, shape: Sequence[int], wanted: Sequence[int]
) -> RuntimeFailure:
    return RuntimeFailure(
        "MS9105",
        f"`{' + '.join(_as_tuple(names))}` has shape {list(shape)}",
        notes=[f"the parameter `{own}` has shape {list(wanted)}"],
        helps=["the checkpoint and its config.json are not of one model"],
    )


def _check_left_over(
    module: nn.Module, wanted: Mapping[str, Names], where: Mapping[str, object], folder: Path
) -> None:
    taken = {name for names in wanted.values() for name in _as_tuple(names)}
    layers = {_layer_kind(name) for name in taken}
    ignored = re.compile(getattr(module, "ignored_weights", "") or r"(?!)")
    left = sorted(
        name
        for name in where
        if name not in taken and _layer_kind(name) in layers and not ignored.fullmatch(name)
    )
    if left:
        shown = ", ".join(f"`{name}`" for name in left[:3])
        more = f" and {len(left) - 3} more" if len(left) > 3 else ""
        raise RuntimeFailure(
            "MS9106",
            f"{shown}{more} of `{folder}` would be left out",
            notes=["the model has these layers, but no parameter for these tensors"],
            helps=["the checkpoint and its config.json are not of one model"],
        )


def _layer_kind(name: str) -> str:
    """A tensor's layer, whatever its number (`layers.3.fc1.bias` → `layers.#.fc1`)."""
    # A name from the file's top begins with `/`, and so does that of a tensor of no layer there.
    layer = name.rpartition(".")[0] or ("/" if name.startswith("/") else "")
    return re.sub(r"(?<![^.])\d+(?![^.])", "#", layer)
