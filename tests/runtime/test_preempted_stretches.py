"""Pages that run out while passes are under way which nobody has looked at."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.plan_folder import seal
from tests.runtime.test_stretches import Speakers
from tests.runtime.test_stretches import _late as _late
from tests.runtime.test_stretches import plan_folder as plan_folder
from tests.runtime.test_stretches import said as said


@pytest.fixture(scope="module")
def narrow(plan_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plan with pages for a little more than one request."""
    folder = tmp_path_factory.mktemp("narrow") / "plan"
    shutil.copytree(plan_folder, folder)
    module = folder / "placements" / "cpu" / "rank0.py"
    text = re.sub(r"pages=\d+", "pages=8", module.read_text())
    module.write_text(re.sub(r"page_tokens=\d+", "page_tokens=8", text))
    seal(folder)
    return folder


@pytest.mark.usefixtures("_late")
@pytest.mark.parametrize(("stretch", "stagger"), [(1, 3), (4, 0)])
def test_requests_say_the_same_on_few_pages(
    narrow: Path,
    said: list[bytes],
    stretch: int,
    stagger: int,
) -> None:
    speakers = Speakers(narrow, stretch)
    made: Any = speakers.speak(range(4), stagger)
    assert made == said
    moves = speakers.worker.preempter.moves
    assert moves.set_aside == moves.brought_back > 0
