"""What a person breaks in a spec or in a deployment is noticed, on the line where it is broken.

`benchmarks/mutations.py` does this for all of them; here one of each, in a few seconds.
"""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.golden import ROOT

MISTAKES = ("spec_mutants", "spec_changes", "originals", "deployment_mutants")


@pytest.fixture
def mutations(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import mutations

    yield mutations
    for name in ("mutations", "mutants", *MISTAKES):
        sys.modules.pop(name, None)


def test_most_mistakes_in_orpheus_are_placed(
    mutations: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "specs/deployments").mkdir(parents=True)
    for name in ("orpheus.mstar", "deployments/orpheus.yaml"):
        text = (ROOT / "specs" / name).read_text(encoding="utf-8")
        (tmp_path / "specs" / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(mutations, "specs_folder", lambda: tmp_path / "specs")
    outcomes = [*mutations.spec_outcomes(1), *mutations.deployment_outcomes(1)]
    specs = [outcome for outcome in outcomes if outcome.path.endswith(".mstar")]
    deployments = [outcome for outcome in outcomes if outcome.path.endswith(".yaml")]
    assert len(specs) >= 30
    assert len(deployments) >= 30
    assert mutations.share(outcomes) >= mutations.WANTED


def test_the_same_file_gives_the_same_mistakes(mutations: ModuleType) -> None:
    source = mutations.read(ROOT / "specs" / "orpheus.mstar")
    first = mutations.spec_mutants(source, 1)
    assert first == mutations.spec_mutants(source, 1)
    assert len({mutant.text for mutant in first}) >= 30
    assert all(mutant.text != source.text for mutant in first)
