"""Links between our pages lead somewhere, and fenced specs in the docs are right."""

import re
from pathlib import Path

import pytest

from tests.support.golden import ROOT
from tests.support.language import report_of
from tests.support.markdown import blocks, cases

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Its links are to be filled in.
TEMPLATE = ROOT / "docs" / "errors" / "TEMPLATE.md"
LINK = re.compile(r"\]\((?!https?://|mailto:)(?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def prose(page: Path) -> str:
    """A page without its code."""
    text = page.read_text(encoding="utf-8")
    for block in blocks(text):
        text = text.replace(block.text, "")
    return re.sub(r"`[^`\n]*`", "", text)


@pytest.mark.parametrize("page", [page for page in PAGES if page != TEMPLATE], ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.finditer(prose(page)):
        target = (page.parent / link["path"]).resolve() if link["path"] else page
        assert target.exists(), f"{link[0]}: no such file"
        if link["anchor"] and target.suffix == ".md":
            assert link["anchor"] in anchors(target), f"{link[0]}: no such heading"


def test_specs_in_the_readme_are_right() -> None:
    for case in cases((ROOT / "README.md").read_text(encoding="utf-8")):
        if case.spec.text.startswith("mstar "):  # a whole spec, and no excerpt
            report, _ = report_of(case)
            assert report.diagnostics == ()


@pytest.mark.parametrize("package", ["mstarc", "runtime/mstarc_runtime"])
def test_the_architecture_names_every_folder_and_file(package: str) -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    names = {
        path.stem for path in (ROOT / package).iterdir() if not path.name.startswith(("_", "."))
    }
    unnamed = [name for name in sorted(names) if not re.search(rf"[*`]{name}(\.py|/)?[*`]", text)]
    assert unnamed == []
