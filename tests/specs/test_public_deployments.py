"""Deployment files that others have published: each compiles, alone and as it is.

They are read where they lie (the folder in MSTARC_PUBLIC_DEPLOYMENTS, or `shared` beside this
checkout) and are no part of this repository. `pytest -s` prints each with its outcome.
"""

import json
import os
from pathlib import Path

import pytest

from mstarc.cli.main import run_command
from tests.support.golden import ROOT

FOLDER = Path(
    os.environ.get(
        "MSTARC_PUBLIC_DEPLOYMENTS", str(ROOT.parent / "shared" / "data" / "mstar-configs")
    )
)
FILES = sorted(FOLDER.glob("*.yaml"))


@pytest.mark.skipif(not FILES, reason=f"there are no deployment files in {FOLDER}")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_public_deployment_compiles(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan"
    code = run_command(["compile", str(path), "-o", str(plan), "--format", "jsonl"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    told = ", ".join(f"{entry['code']} {entry['message']}" for entry in found) or "nothing to say"
    with capsys.disabled():
        print(f"\n{path.stem}: {'compiles' if code == 0 else 'refused'}; {told}", end="")
    assert code == 0
    assert (plan / "placements" / path.stem / "placement.json").is_file()
    assert all(entry["file"] and entry["span"]["startLine"] >= 1 for entry in found)
