"""The environment, and failures as text."""

from pathlib import Path

import pytest

from mstarc_runtime.errors import CATALOGUE, RuntimeFailure, render
from mstarc_runtime.settings import rank_environ, read_settings


def test_the_cache_is_in_the_home_folder_unless_it_is_set(tmp_path: Path) -> None:
    assert read_settings({}).cache_dir == Path.home() / ".cache" / "mstarc"
    assert read_settings({"MSTARC_CACHE": str(tmp_path)}).cache_dir == tmp_path


@pytest.mark.parametrize("value", ["", "relative/folder", __file__])
def test_a_bad_value_names_the_variable_the_value_and_what_is_accepted(value: str) -> None:
    with pytest.raises(RuntimeFailure) as caught:
        read_settings({"MSTARC_CACHE": value})
    text = render(caught.value)
    assert "MS9001" in text
    assert "`MSTARC_CACHE`" in text
    assert f"`{value}`" in text
    assert "accepted: " in text


def test_codes_and_names_are_unique_and_in_the_runtime_s_range() -> None:
    assert len({row.code for row in CATALOGUE}) == len(CATALOGUE)
    assert len({row.name for row in CATALOGUE}) == len(CATALOGUE)
    assert all(row.code.startswith("MS9") and len(row.code) == 6 for row in CATALOGUE)


def test_compiled_kernels_are_kept_beside_the_weights_unless_a_person_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MSTARC_CACHE", str(tmp_path))
    monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
    assert rank_environ()["TRITON_CACHE_DIR"] == str(tmp_path / "triton")
    monkeypatch.setenv("TRITON_CACHE_DIR", "/elsewhere")
    assert rank_environ()["TRITON_CACHE_DIR"] == "/elsewhere"
    monkeypatch.delenv("TRITON_CACHE_DIR")
    monkeypatch.setenv("MSTARC_CACHE", "relative")  # refused where it is read
    assert "TRITON_CACHE_DIR" not in rank_environ()
