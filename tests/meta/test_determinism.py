"""The same spec gives the same bytes, whatever the hash seed and wherever it lies."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.golden import ROOT

SPECS = ("orpheus", "voice_chat")


def compiled(name: str, folder: Path, hash_seed: str) -> dict[str, bytes]:
    folder.mkdir()
    (folder / f"{name}.mstar").write_bytes((ROOT / "specs" / f"{name}.mstar").read_bytes())
    placements = [word for name in ("cpu", "2xcpu") for word in ("--placement", name)]
    subprocess.run(
        [sys.executable, "-m", "mstarc", "compile", f"{name}.mstar", "-o", "plan", *placements],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed},
        check=True,
    )
    plan = folder / "plan"
    return {
        path.relative_to(plan).as_posix(): path.read_bytes()
        for path in plan.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("name", SPECS)
def test_plans_are_the_same_bytes(name: str, tmp_path: Path) -> None:
    first = compiled(name, tmp_path / "here", "1")
    second = compiled(name, tmp_path / "elsewhere", "2")
    assert first.keys() == second.keys()
    for path, content in first.items():
        assert content == second[path], f"{path} differs"
