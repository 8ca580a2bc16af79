"""A published `.pt` file becomes a folder that is loaded by name."""

import json
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.models.vjepa2_ac import Encoder, FrameRows
from mstarc_runtime.weights.convert.torch_file import convert_file, main
from mstarc_runtime.weights.load import load, read_config
from tests.support.vjepa2_ac_cases import own_module, weights

CPU = torch.device("cpu")


@pytest.fixture
def sizes(tmp_path: Path) -> Path:
    path = tmp_path / "sizes.json"
    path.write_text(json.dumps(weights()["frames"]["config"]))
    return path


def _published(path: Path) -> None:
    """As Meta publishes it: tables of tables, names with what wrapped the modules."""
    parts = {"encoder": own_module("Encoder", "video_encoder")}
    content: dict[str, object] = {"epoch": 3, "opt": {"state": {0: torch.ones(2)}}}
    for part, module in parts.items():
        own = dict(module.named_parameters())
        content[part] = {
            f"module.backbone.{public}": own[name] for name, public in module.weight_map().items()
        }
    rows = own_module("FrameRows", "frames")
    own = dict(rows.named_parameters())
    content["predictor"] = {f"module.{p}": own[n] for n, p in rows.weight_map().items()}
    torch.save(content, path)


def test_a_published_file_is_loaded(tmp_path: Path, sizes: Path) -> None:
    _published(tmp_path / "vjepa2-ac.pt")
    out = tmp_path / "out"
    words = [str(tmp_path / "vjepa2-ac.pt"), str(out), "--config", str(sizes)]
    words += ["--only", "encoder", "--only", "predictor"]
    assert main([*words, "--without", "module.", "--without", "backbone."]) == 0
    config = read_config(out)
    for kind, under, like in (
        (Encoder, "encoder.", own_module("Encoder", "video_encoder")),
        (FrameRows, "predictor.", own_module("FrameRows", "frames")),
    ):
        made = kind.build(config, dtype=torch.float32, device=CPU)
        load(made, out, under=under)
        wanted = dict(like.named_parameters())
        for name, value in made.named_parameters():
            assert torch.equal(value, wanted[name]), name
    assert not any(name.startswith("opt") for name in load_file(out / "model.safetensors"))


class _Code:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("code ran",)


def test_a_file_that_would_run_code_is_refused(
    tmp_path: Path, sizes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.pt"
    path.write_bytes(pickle.dumps({"encoder": _Code()}))
    with pytest.raises(RuntimeFailure) as caught:
        convert_file(path, tmp_path / "out", config=sizes)
    assert caught.value.code == "MS9107"
    assert "code ran" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "how", "code"),
    [
        ({"a": 1}, {}, "MS9104"),
        ({"a": {"x": torch.ones(1)}}, {"only": ["b"]}, "MS9104"),
        ({"a.x": torch.ones(1), "x": torch.ones(1)}, {"without": ["a."]}, "MS9107"),
    ],
)
def test_files_without_what_is_asked_for_are_refused(
    tmp_path: Path, sizes: Path, content: object, how: dict[str, list[str]], code: str
) -> None:
    torch.save(content, tmp_path / "some.pt")
    with pytest.raises(RuntimeFailure) as caught:
        convert_file(tmp_path / "some.pt", tmp_path / "out", config=sizes, **how)
    assert caught.value.code == code


def test_a_file_that_is_not_there_is_refused(tmp_path: Path, sizes: Path) -> None:
    with pytest.raises(RuntimeFailure) as caught:
        convert_file(tmp_path / "none.pt", tmp_path / "out", config=sizes)
    assert caught.value.code == "MS9201"
