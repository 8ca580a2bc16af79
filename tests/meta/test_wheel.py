"""What is in the wheel: three packages and the data that they read, and nothing else."""

import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from tests.support.golden import ROOT


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    folder = tmp_path_factory.mktemp("wheel")
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with zipfile.ZipFile(Path(wheel)) as archive:
        return set(archive.namelist())


def test_the_wheel_has_three_packages(names: set[str]) -> None:
    tops = {name.partition("/")[0] for name in names}
    packages = {top for top in tops if not top.endswith(".dist-info")}
    assert packages == {"mstarc", "mstarc_runtime", "mstarc_schedule"}


@pytest.mark.parametrize(
    ("folder", "shipped"),
    [("grammar", "grammar"), ("specs", "specs"), ("docs/errors", "errors")],
)
def test_the_wheel_has_the_data(names: set[str], folder: str, shipped: str) -> None:
    written = {
        path.relative_to(ROOT / folder).as_posix()
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
    }
    prefix = f"mstarc/_data/{shipped}/"
    assert written
    assert {name.removeprefix(prefix) for name in names if name.startswith(prefix)} == written


def test_the_wheel_has_every_module_and_template(names: set[str]) -> None:
    for source in ("mstarc", "runtime"):
        base = ROOT if source == "mstarc" else ROOT / source
        for path in (ROOT / source).rglob("*"):
            if (
                path.suffix in (".py", ".j2", ".json", ".html", ".css", ".js", ".mstar")
                and "__pycache__" not in path.parts
            ):
                assert path.relative_to(base).as_posix() in names


def test_the_wheel_has_the_licence(names: set[str]) -> None:
    assert any(name.endswith("/licenses/LICENSE") for name in names)
