"""Which class `impl` means: one of ours, or one of the user's on Python's path."""

from pathlib import Path

import pytest

from mstarc_runtime.engine.implementations import Implementations
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.plan_api import Weights
from mstarc_runtime.weights.progress import progress_to

FRONTEND = """
class Frontend:
    @classmethod
    def build(cls, config, *, folder):
        made = cls()
        made.words = config["words"]
        return made
"""


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Implementations:
    folder = tmp_path / "mine_for_tests"
    folder.mkdir()
    (folder / "front.py").write_text(FRONTEND)
    (folder / "broken.py").write_text("raise ValueError('no such luck')\n")
    monkeypatch.syspath_prepend(tmp_path)
    return Implementations(cache_dir=tmp_path / "cache", progress=progress_to())


def test_a_class_of_the_users_own_is_built(found: Implementations) -> None:
    weights = Weights(source="", config={"words": 7})
    assert found.host("front", "mine_for_tests.front:Frontend", weights).words == 7


def test_a_class_that_there_is_not_says_where_to_write_it(found: Implementations) -> None:
    for impl in ("mine_for_tests.front:Back", "mine_for_tests.back:Back", "nowhere_at.all:Back"):
        with pytest.raises(RuntimeFailure) as failure:
            found.host("front", impl, Weights(source=""))
        assert failure.value.code == "MS9008"
        assert any("PYTHONPATH" in text for text in failure.value.helps)


def test_a_module_that_fails_says_how(found: Implementations) -> None:
    with pytest.raises(RuntimeFailure) as failure:
        found.host("front", "mine_for_tests.broken:Back", Weights(source=""))
    assert failure.value.code == "MS9008"
    assert failure.value.notes == ("ValueError: no such luck",)
