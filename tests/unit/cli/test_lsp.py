"""The language server's package is an extra, and who lacks it is told."""

import pytest

from mstarc.cli import lsp
from mstarc.cli.main import run_command


def test_who_has_no_server_is_told_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lsp, "find_spec", lambda name: None)
    assert run_command(["lsp"]) == 2
    shown = capsys.readouterr().out
    assert "the language server needs a package that is not installed" in shown
    assert 'pip install "mstarc[lsp]"' in shown
