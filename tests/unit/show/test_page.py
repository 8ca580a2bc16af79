"""The page is one file that asks nothing of a network, and its data are what the script reads."""

import json
import re
from pathlib import Path

import pytest

from mstarc.cli.main import run_command
from mstarc.show.toy import toy_runs
from tests.support.front_half import lowered
from tests.support.golden import ROOT


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    target = tmp_path_factory.mktemp("page") / "orpheus.html"
    spec = str(ROOT / "specs/orpheus.mstar")
    assert run_command(["show", spec, "--as", "html", "-o", str(target)]) == 0
    return target.read_text(encoding="utf-8")


def test_nothing_is_fetched(page: str) -> None:
    assert set(re.findall(r"https?://[^\"'` ]+", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(?:link|img|iframe|script[^>]* src)", page)
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|WebSocket|import\(", page)


def test_the_data_are_complete(page: str) -> None:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found is not None
    data = json.loads(found[1])
    assert data["model"] == "orpheus"
    assert [block["name"] for block in data["blocks"]] == ["speak", "vocoder"]
    assert data["source"]["text"] == (ROOT / "specs/orpheus.mstar").read_text(encoding="utf-8")
    (run,) = data["runs"]
    keys = set(re.findall(r'"key": "([^"]+)"', json.dumps(data["blocks"])))
    for event in run["events"]:
        assert set(event["path"]) <= keys


def test_a_script_end_in_the_spec_does_not_end_the_data(tmp_path: Path) -> None:
    spec = tmp_path / "odd.mstar"
    text = (ROOT / "specs/orpheus.mstar").read_text(encoding="utf-8")
    spec.write_text(text.replace("# the end of speech", "# </script><b>"), encoding="utf-8")
    target = tmp_path / "odd.html"
    assert run_command(["show", str(spec), "--as", "html", "-o", str(target)]) == 0
    assert "</script><b>" not in target.read_text(encoding="utf-8")


def test_a_placement_has_ranks_and_regions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = str(ROOT / "specs/orpheus.mstar")
    assert run_command(["show", spec, "--as", "html", "--placement", "2xcpu"]) == 0
    shown = capsys.readouterr().out
    assert '"placement":"2xcpu"' in shown
    assert '"region":"decode.0"' in shown


def test_the_page_shows_the_whole_model(capsys: pytest.CaptureFixture[str]) -> None:
    spec = str(ROOT / "specs/orpheus.mstar")
    assert run_command(["show", spec, "decode", "--as", "html"]) == 2
    assert "leave the name out" in capsys.readouterr().out


def test_options_of_a_request_are_written_as_in_a_spec() -> None:
    program = lowered((ROOT / "specs/bagel.mstar").read_text(encoding="utf-8"))
    options = dict(toy_runs(program)[0].options)
    assert options["think"] == "false"
    assert options["renorm"] == '"global"'
