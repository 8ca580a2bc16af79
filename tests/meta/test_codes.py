"""The catalogue, the pages and what they claim agree."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from mstarc.cli.main import run_command
from mstarc.diagnostics import CATALOG
from mstarc.diagnostics.explain import REQUIRED_HEADINGS, Explanation, explain
from mstarc.resources import error_pages_folder, specs_folder
from mstarc_runtime.errors import CATALOGUE as RUNTIME_CATALOGUE
from tests.support.language import report_of
from tests.support.markdown import Block, blocks, cases

NAMES = {entry.code: entry.name for entry in CATALOG.values()} | {
    row.code: row.name for row in RUNTIME_CATALOGUE
}
# An example of our own mistakes would be one, and whether the runtime is there is not ours to say.
WITHOUT_EXAMPLE = {"MS0900", "MS0006"}


def page(code: str) -> str:
    path = error_pages_folder() / f"{code}.md"
    assert path.is_file(), f"docs/errors/{code}.md is missing; docs/errors/TEMPLATE.md shows how"
    return path.read_text(encoding="utf-8")


def section(code: str, heading: str) -> str:
    return page(code).partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_codes_and_names_are_unique_and_in_order() -> None:
    codes = list(CATALOG)
    assert codes == sorted(codes)
    assert len(set(NAMES.values())) == len(NAMES) == len(CATALOG) + len(RUNTIME_CATALOGUE)
    for code, name in NAMES.items():
        assert re.fullmatch(r"MS\d{4}", code)
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)


def test_every_page_has_a_code() -> None:
    pages = {path.stem for path in error_pages_folder().glob("*.md")} - {"TEMPLATE", "README"}
    assert pages <= set(NAMES), "a page of a code that is in no catalogue"


@pytest.mark.parametrize("code", NAMES)
def test_page_has_its_title_and_headings(code: str) -> None:
    text = page(code)
    assert text.startswith(f"# {NAMES[code]} ({code})\n")
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert [heading for heading in headings if heading != "Fix safety"] == list(REQUIRED_HEADINGS)
    for heading in headings:
        assert section(code, heading).strip(), f"nothing under {heading}"


@pytest.mark.parametrize("code", NAMES)
def test_code_is_explained_by_code_and_by_name(code: str) -> None:
    for wanted in (code, code.lower(), NAMES[code]):
        found = explain(wanted)
        assert isinstance(found, Explanation)
        assert (found.code, found.page) == (code, page(code))


@pytest.mark.parametrize("code", sorted(set(CATALOG) - WITHOUT_EXAMPLE))
def test_example_shows_the_code_and_its_repair_does_not(
    code: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    lints = (code,) if code.startswith("MS1") else ()
    shown = codes_of(section(code, "Example"), capsys, lints)
    assert code in shown, f"the example shows {sorted(shown) or 'nothing'}"
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    monkeypatch.chdir(tmp_path)
    assert codes_of(section(code, "Use instead"), capsys, lints) == set()


def codes_of(
    text: str, capsys: pytest.CaptureFixture[str], lints: tuple[str, ...] = ()
) -> set[str]:
    """The codes that the blocks of a section report; a section must have some block to run."""
    found = {
        diagnostic.code
        for case in cases(text)
        for diagnostic in report_of(case, lints)[0].diagnostics
    }
    consoles = [block for block in blocks(text) if block.language == "console"]
    assert consoles or cases(text), "neither a spec nor a command"
    for block in consoles:
        found |= codes_of_console(block, capsys)
    return found


def codes_of_console(block: Block, capsys: pytest.CaptureFixture[str]) -> set[str]:
    """Run the commands of a block in the working folder, where the shipped specs lie too."""
    for spec in specs_folder().glob("*.mstar"):
        shutil.copy(spec, ".")
    shutil.copytree(specs_folder(), "specs", dirs_exist_ok=True)
    capsys.readouterr()
    for line in block.text.splitlines():
        command = line.removeprefix("$ ")
        assert command != line, "a command begins with `$ `"
        if command.startswith("mstarc "):
            run_command(shlex.split(command)[1:])
        elif not command.startswith("pip "):
            subprocess.run(["bash", "-c", command], check=True, env=os.environ | {"LC_ALL": "C"})
    return set(re.findall(r"(?:error|warning)\[(MS\d{4})\]", capsys.readouterr().out))
