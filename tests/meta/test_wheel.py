"""What is in the wheel: three packages and the data that they read, and nothing else."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from tests.support.golden import ROOT

ALONE = """
import sys
from pathlib import Path
import mstarc.resources as resources
from mstarc.cli.main import run_command

specs = resources.specs_folder()
assert Path("site") in Path(specs).relative_to(Path.cwd()).parents, specs
sizes = ("--sizes", str(specs / "tiny" / "orpheus.yaml"), "--placement", "cpu")
assert run_command(["compile", str(specs / "orpheus.mstar"), *sizes, "-o", "plan"]) == 0
assert run_command(["explain", "MS9321"]) == 0

from mstarc_runtime.loader import load_placement, load_plan
from mstarc_runtime.server import page
from mstarc_runtime.server.command import main

load_placement(load_plan(Path("plan")), "cpu")
assert list(Path(page.__file__).with_name("page_files").iterdir())
try:
    main(["--help"])
except SystemExit as ended:
    sys.exit(ended.code)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    (made,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    return Path(made)


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
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


def test_what_is_in_the_wheel_is_enough_to_compile_and_serve(wheel: Path, tmp_path: Path) -> None:
    """With nothing of the checkout in reach."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    said = subprocess.run(
        [sys.executable, "-c", ALONE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site"), "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    assert "usage: mstarc serve" in said.stdout


def test_the_wheel_has_the_licence(names: set[str]) -> None:
    assert any(name.endswith("/licenses/LICENSE") for name in names)
