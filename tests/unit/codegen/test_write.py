"""A plan is on the disk as a whole, or not at all."""

import os
from pathlib import Path

import pytest

from mstarc.codegen.write import is_replaceable, write_plan

FILES = {"plan.json": "{}\n", "placements/cpu/rank0.py": "x = 1\n"}


def contents(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_plan_is_written_below_folders_that_are_not_there_yet(tmp_path: Path) -> None:
    write_plan(FILES, tmp_path / "a" / "b" / "plan")
    assert contents(tmp_path) == {f"a/b/plan/{name}": text for name, text in FILES.items()}


def test_a_plan_replaces_an_older_one_whole(tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    write_plan(FILES | {"old.py": "left over\n"}, plan)
    write_plan(FILES, plan)
    assert contents(plan) == FILES
    assert [path.name for path in tmp_path.iterdir()] == ["plan"]


@pytest.mark.parametrize("failing", ["write", "rename"])
def test_a_failure_leaves_the_old_plan_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    plan = tmp_path / "plan"
    write_plan(FILES, plan)
    full = OSError(28, "No space left on device")
    if failing == "write":
        monkeypatch.setattr(Path, "write_bytes", lambda *_: (_ for _ in ()).throw(full))
    else:
        rename = os.rename

        def fail_for_new(source: Path, target: Path) -> None:
            if source.name == "new":
                raise full
            rename(source, target)

        monkeypatch.setattr(os, "rename", fail_for_new)
    with pytest.raises(OSError, match="No space left"):
        write_plan(FILES | {"plan.json": "{1}\n"}, plan)
    monkeypatch.undo()
    assert contents(plan) == FILES
    assert [path.name for path in tmp_path.iterdir()] == ["plan"]


def test_other_folders_are_not_replaceable(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    assert is_replaceable(precious)
    (precious / "notes.txt").write_text("x")
    assert not is_replaceable(precious)
    assert not is_replaceable(precious / "notes.txt")
    (precious / "plan.json").write_text("{}")
    assert is_replaceable(precious)
    dangling = tmp_path / "link"
    dangling.symlink_to(tmp_path / "nowhere")
    assert not is_replaceable(dangling)
