"""Pages (`tests/lang`, `tests/lint`) and `.mirtest` files are tests with goldens to update."""

from pathlib import Path

import pytest

from tests.support.golden import Golden
from tests.support.language import LanguagePage, LintPage

HERE = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-goldens",
        action="store_true",
        default=False,
        help="rewrite the committed texts that tests compare with; then read the diff",
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix == ".md" and file_path.is_relative_to(HERE / "lang"):
        return LanguagePage.from_parent(parent, path=file_path)
    if file_path.suffix == ".md" and file_path.is_relative_to(HERE / "lint"):
        return LintPage.from_parent(parent, path=file_path)
    if file_path.suffix == ".mirtest":
        # Imported here: language pages can be tested while a pass is being rewritten.
        from tests.support.mirtest import MirTestFile

        return MirTestFile.from_parent(parent, path=file_path)
    return None


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares a text with a committed one, and rewrites it under `--update-goldens`."""
    return Golden(update=request.config.getoption("update_goldens"))
