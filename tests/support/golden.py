"""Compare what was made with what was committed; rewrite the latter under `--update-goldens`."""

from collections.abc import Collection
from difflib import unified_diff
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UPDATE_COMMAND = "pytest --update-goldens"


class Golden:
    """Compares texts with committed ones, or rewrites these when `update` is set."""

    def __init__(self, *, update: bool) -> None:
        self.update = update

    def check(self, actual: str, path: Path) -> None:
        """Fail with a unified diff unless the file at `path` holds exactly `actual`."""
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() or path.read_text(encoding="utf-8") != actual:
                path.write_text(actual, encoding="utf-8")
            return
        name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
        if not path.exists():
            pytest.fail(
                f"there is no golden {name}; make it with `{UPDATE_COMMAND}`", pytrace=False
            )
        expected = path.read_text(encoding="utf-8")
        if expected != actual:
            pytest.fail(difference(expected, actual, name), pytrace=False)

    def check_no_orphans(self, folder: Path, expected: Collection[str]) -> None:
        """Fail when `folder` holds a file that no test compares with (by names in the folder)."""
        present = {
            path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
        }
        orphans = sorted(present - set(expected))
        if orphans:
            pytest.fail(f"goldens without a test in {folder}: {', '.join(orphans)}", pytrace=False)


def difference(expected: str, actual: str, name: str, command: str = UPDATE_COMMAND) -> str:
    """A unified diff of two texts, and the command that accepts the second."""
    lines = unified_diff(
        expected.splitlines(),
        actual.splitlines(),
        fromfile=f"{name} (committed)",
        tofile=f"{name} (made)",
        lineterm="",
    )
    return "\n".join([*lines, "", f"if this is meant: {command}"])
