"""Our own files: small, plainly named, without leftovers."""

import re
from pathlib import Path

import pytest

from tests.support.golden import ROOT

CODE_FOLDERS = ("mstarc", "runtime", "tests", "benchmarks")
MOST_LINES = 400
EMPTY_NAMES = {"base_utils", "common", "helper", "helpers", "misc", "util", "utils"}


def source_files() -> list[Path]:
    return sorted(path for folder in CODE_FOLDERS for path in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("path", source_files(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_file_is_small_and_named_for_what_it_does(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    lines = text.count("\n")
    assert lines <= MOST_LINES, f"{lines} lines; split it by what it does"
    assert path.stem not in EMPTY_NAMES, "name it for what it does"
    leftover = re.search(r"#\s*(TODO(?!\(#\d+\))|FIXME|XXX)", text)
    assert leftover is None, f"{leftover and leftover[0]}: write an issue and name it"


@pytest.mark.parametrize("path", source_files(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_module_says_what_it_is_for(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith(('"""', "#!")), "a module begins with its docstring"


def test_shipped_data_is_where_packages_look_for_it() -> None:
    from mstarc import resources

    assert (resources.grammar_folder() / "mstar.lark").is_file()
    assert (resources.specs_folder() / "orpheus.mstar").is_file()
    assert (resources.error_pages_folder() / "MS0001.md").is_file()
