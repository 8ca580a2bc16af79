"""Pages (`tests/lang`, `tests/lint`) and `.mirtest` files are tests with goldens to update.

With `--dist loadgroup`, tests that share a server or what a file makes once run in one process.
"""

import gc
from pathlib import Path

import pytest

from tests.support.golden import Golden
from tests.support.language import LanguagePage, LintPage

HERE = Path(__file__).parent
# Fixtures of `e2e/conftest.py`: a server each, which several files ask.
SERVERS = frozenset({"hello", "hearing", "seeing", "drawing"})

# Thousands of modules are loaded and stay: they are set aside when all tests are known.
gc.disable()


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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        is_long = item.path.is_relative_to(HERE / "e2e") or item.path.is_relative_to(
            HERE / "runtime"
        )
        if is_long and item.get_closest_marker("xdist_group") is None:
            asked = SERVERS & set(getattr(item, "fixturenames", ()))
            own = item.path.relative_to(HERE).with_suffix("").as_posix()
            group = min(asked) if asked else own
            item.add_marker(pytest.mark.xdist_group(group))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares a text with a committed one, and rewrites it under `--update-goldens`."""
    return Golden(update=request.config.getoption("update_goldens"))
