"""Steps prepared while the one before runs: the same bytes, and nothing kept when taken back."""

from pathlib import Path

import pytest

import mstarc_runtime.stepping
from mstarc_runtime.ahead import Ahead
from mstarc_runtime.scheduler import Group
from mstarc_runtime.stepping import Stepper
from tests.runtime.plan_folder import write_plan
from tests.runtime.test_determinism import PROMPTS, speak


@pytest.fixture(scope="module")
def plan_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_plan("orpheus", tmp_path_factory.mktemp("plan"))


class Counted(Ahead):
    """Always used, and counts what became of what it prepared."""

    taken = 0
    given_back = 0

    def __init__(self, stepper: Stepper, *, is_used: bool) -> None:
        super().__init__(stepper, is_used=is_used or True)

    def take(self, group: Group, batch: object) -> bool:
        taken = super().take(group, batch)  # type: ignore[arg-type]
        Counted.taken += taken
        return taken

    def give_back(self) -> None:
        Counted.given_back += self._batch is not None
        super().give_back()


@pytest.mark.parametrize("stagger", [0, 3])
def test_requests_that_come_and_go_say_the_same(
    plan_folder: Path, stagger: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [(prompt, seed) for seed, prompt in enumerate(PROMPTS)]
    # In one group: groups of single rows, as determinism asks for, make way for one another.
    plain = speak(plan_folder, requests, stagger=stagger, deterministic=False)
    monkeypatch.setattr(mstarc_runtime.stepping, "Ahead", Counted)
    Counted.taken = Counted.given_back = 0
    ahead = speak(plan_folder, requests, stagger=stagger, deterministic=False)
    assert ahead == plain
    assert Counted.taken > 20, "most steps were prepared ahead"
    assert Counted.given_back > 0, "requests end before their bound, or come in between"
