"""Which folder may import which, as the contracts in `pyproject.toml` say."""

import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

from tests.support.golden import ROOT


def test_contracts_hold(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    status = lint_imports(config_filename="pyproject.toml", no_cache=True)
    assert status == EXIT_STATUS_SUCCESS, capsys.readouterr().out
