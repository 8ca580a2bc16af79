"""Loading by name: joined, cast, sharded, and every mismatch an error."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.weights.load import load, read_config
from mstarc_runtime.weights.manifest import write_manifest


class Joined(nn.Module):
    """Two projections of the checkpoint in one matrix, and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.both = nn.Linear(4, 6, bias=False)
        self.norm = nn.LayerNorm(4)

    def weight_map(self) -> Mapping[str, str | tuple[str, ...]]:
        return {
            "both.weight": ("layers.0.q.weight", "layers.0.k.weight"),
            "norm.weight": "norm.weight",
            "norm.bias": "norm.bias",
        }


def _tensors() -> dict[str, Tensor]:
    return {
        "layers.0.q.weight": torch.arange(16.0).view(4, 4),
        "layers.0.k.weight": torch.arange(8.0).view(2, 4),
        "norm.weight": torch.ones(4),
        "norm.bias": torch.zeros(4),
    }


def _folder(path: Path, tensors: dict[str, Tensor]) -> Path:
    save_file(tensors, path / "model.safetensors")
    return path


def _code(module: nn.Module, folder: Path, **options: str) -> RuntimeFailure:
    with pytest.raises(RuntimeFailure) as caught:
        load(module, folder, **options)
    return caught.value


def test_several_tensors_are_joined_and_cast(tmp_path: Path) -> None:
    module = Joined().to(torch.bfloat16)
    tensors = _tensors()
    load(module, _folder(tmp_path, tensors))
    expected = torch.cat([tensors["layers.0.q.weight"], tensors["layers.0.k.weight"]])
    assert torch.equal(module.both.weight, expected.bfloat16())


def test_a_prefix_is_taken_off(tmp_path: Path) -> None:
    tensors = {f"model.{name}": value for name, value in _tensors().items()}
    module = Joined()
    load(module, _folder(tmp_path, tensors), under="model.")
    assert module.both.weight[1, 0] == 4.0


def test_shards_are_read_through_their_index(tmp_path: Path) -> None:
    tensors = _tensors()
    names = sorted(tensors)
    places = {name: f"part-{i % 2}.safetensors" for i, name in enumerate(names)}
    for shard in set(places.values()):
        save_file({n: tensors[n] for n in names if places[n] == shard}, tmp_path / shard)
    index = {"weight_map": places}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    module = Joined()
    load(module, tmp_path)
    assert module.both.weight[5, 3] == 7.0
    (tmp_path / "part-1.safetensors").unlink()
    assert _code(Joined(), tmp_path).code == "MS9104"


def test_parameters_on_the_meta_device_are_made(tmp_path: Path) -> None:
    with torch.device("meta"):
        module = Joined()
    load(module, _folder(tmp_path, _tensors()))
    assert module.both.weight.device.type == "cpu"
    assert module.norm.bias.sum() == 0


def test_a_missing_tensor_is_named_with_its_parameter(tmp_path: Path) -> None:
    tensors = _tensors()
    del tensors["layers.0.k.weight"]
    failure = _code(Joined(), _folder(tmp_path, tensors))
    assert failure.code == "MS9104"
    assert "layers.0.k.weight" in failure.message
    assert "both.weight" in failure.notes[0]


def test_tensors_that_do_not_fit_each_other_are_shown(tmp_path: Path) -> None:
    tensors = _tensors() | {"layers.0.k.weight": torch.zeros(2, 5)}
    failure = _code(Joined(), _folder(tmp_path, tensors))
    assert failure.code == "MS9105"
    assert "`layers.0.k.weight` is [2, 5]" in failure.notes[0]


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"weight_map": {"a": 1}}'])
def test_an_index_that_names_no_shards_is_unreadable(tmp_path: Path, content: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(content)
    assert _code(Joined(), tmp_path).code == "MS9107"


def test_another_shape_is_shown_with_both_sides(tmp_path: Path) -> None:
    failure = _code(Joined(), _folder(tmp_path, _tensors() | {"norm.bias": torch.zeros(5)}))
    assert failure.code == "MS9105"
    assert "[5]" in failure.message
    assert "[4]" in failure.notes[0]


@pytest.mark.parametrize("extra", ["layers.0.q.bias", "layers.7.q.weight"])
def test_a_tensor_of_a_known_layer_that_nobody_takes_is_an_error(
    tmp_path: Path, extra: str
) -> None:
    failure = _code(Joined(), _folder(tmp_path, _tensors() | {extra: torch.zeros(4)}))
    assert failure.code == "MS9106"
    assert extra in failure.message


def test_layers_of_another_node_are_no_concern(tmp_path: Path) -> None:
    load(Joined(), _folder(tmp_path, _tensors() | {"vision.0.q.weight": torch.zeros(4)}))


def test_a_file_changed_since_it_was_made_is_noticed(tmp_path: Path) -> None:
    folder = _folder(tmp_path, _tensors())
    write_manifest(folder, source="t", licence="MIT")
    load(Joined(), folder)
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert _code(Joined(), folder).code == "MS9103"


def test_a_damaged_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"not safetensors")
    assert _code(Joined(), tmp_path).code == "MS9107"


def test_a_folder_with_pickles_only_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    failure = _code(Joined(), tmp_path)
    assert failure.code == "MS9104"
    assert "pickled" in failure.helps[0]


def test_a_config_that_is_missing_or_no_object_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailure) as caught:
        read_config(tmp_path)
    assert caught.value.code == "MS9104"
    (tmp_path / "config.json").write_text("[1")
    with pytest.raises(RuntimeFailure) as caught:
        read_config(tmp_path)
    assert caught.value.code == "MS9107"


class Beside(Joined):
    """A module that also reads a file which the index leaves out."""

    weight_files = ("norm.safetensors",)


def test_files_beside_the_index_are_read_where_a_module_names_them(tmp_path: Path) -> None:
    tensors = _tensors()
    norm = {name: tensors.pop(name) for name in ("norm.weight", "norm.bias")}
    save_file(tensors, tmp_path / "layers.safetensors")
    save_file(norm, tmp_path / "norm.safetensors")
    index = {"weight_map": dict.fromkeys(tensors, "layers.safetensors")}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    load(Beside(), tmp_path)
    assert _code(Joined(), tmp_path).code == "MS9104"
