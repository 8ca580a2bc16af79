"""The files of the shipped plans: what they import, their form, their digests, what they say."""

import ast
import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping
from xml.etree import ElementTree

import pytest

from tests.support.generated import SHIPPED, Shipped, compiled
from tests.support.golden import ROOT
from tests.support.markdown import blocks
from tests.support.toy_ranks import plan_package

MAY_IMPORT = {
    "dataclasses",
    "mstarc_runtime.plan_api",
    "mstarc_plan.machines",
    "mstarc_plan.messages",
}


@pytest.fixture(scope="module", params=SHIPPED, ids=lambda shipped: shipped.name)
def files(request: pytest.FixtureRequest) -> Mapping[str, str]:
    shipped: Shipped = request.param
    return compiled(shipped)


def test_generated_code_imports_the_plan_api_and_its_plan_only(files: Mapping[str, str]) -> None:
    for name, text in files.items():
        if not name.endswith(".py"):
            continue
        for node in ast.walk(ast.parse(text)):
            assert not isinstance(node, ast.Import), name
            if isinstance(node, ast.ImportFrom):
                assert node.module in MAY_IMPORT, name
                names = [alias.name for alias in node.names]
                assert names == sorted(names, key=lambda n: (not n.isupper(), n))


def test_every_imported_name_is_used(files: Mapping[str, str]) -> None:
    for name, text in files.items():
        if name.endswith(".py"):
            lint = ["ruff", "check", "--isolated", "--select", "F,E,W", "--line-length", "100", "-"]
            found = subprocess.run(
                [sys.executable, "-m", *lint], input=text, capture_output=True, text=True
            )
            assert found.returncode == 0, f"{name}: {found.stdout}"


def test_generated_code_is_as_a_formatter_leaves_it(files: Mapping[str, str]) -> None:
    for name, text in files.items():
        if name.endswith(".py"):
            tidy = ["ruff", "format", "--isolated", "--line-length", "100", "-"]
            found = subprocess.run(
                [sys.executable, "-m", *tidy],
                input=text,
                capture_output=True,
                text=True,
                check=True,
            )
            assert found.stdout == text, name


def test_every_file_has_its_digest(files: Mapping[str, str]) -> None:
    listed = json.loads(files["plan.json"])["files"]
    assert set(listed) == set(files) - {"plan.json"}
    for name, digest in listed.items():
        assert hashlib.sha256(files[name].encode()).hexdigest() == digest


def test_no_file_names_a_folder_of_this_machine(files: Mapping[str, str]) -> None:
    for name, text in files.items():
        assert "/home/" not in text, name
        assert "/tmp/" not in text, name


def test_step_numbers_are_unique_over_all_ranks(files: Mapping[str, str]) -> None:
    for placement in json.loads(files["plan.json"])["placements"]:
        numbers = []
        for name, text in files.items():
            if name.startswith(f"placements/{placement}/rank"):
                assigned = [n for n in ast.parse(text).body if isinstance(n, ast.Assign)]
                values = [n.value for n in assigned]
                numbers += [v.value for v in values if isinstance(v, ast.Constant)]
        assert sorted(numbers) == list(range(len(numbers)))


def test_the_drawing_is_sound_and_shows_every_call(files: Mapping[str, str]) -> None:
    drawing = ElementTree.fromstring(files["graph.svg"])
    shown = " ".join(drawing.itertext())
    for node in json.loads(files["plan.json"])["nodes"]:
        assert f"{node['name']}." in shown
    assert "http" not in files["graph.svg"].replace("http://www.w3.org/2000/svg", "")


def test_the_report_says_where_every_node_runs_and_what_no_graph_holds(
    files: Mapping[str, str],
) -> None:
    report = files["REPORT.md"]
    document = json.loads(files["plan.json"])
    for placement in document["placements"]:
        section = report.split(f"## Placement `{placement}`")[1].split("\n## ")[0]
        for node in document["nodes"]:
            assert f"`{node['name']}`" in section
        placed = json.loads(files[f"placements/{placement}/placement.json"])
        for call in placed["uncaptured"]:
            assert f"`{call['site']}`" in section
            assert call["reason"].replace("|", "\\|") in section
        for region in placed["regions"]:
            assert f"`{region['name']}`" in section


def test_a_request_outside_its_domain_is_refused() -> None:
    files = compiled(SHIPPED[0])
    with plan_package(files) as (messages, machines):
        machines.check(messages.Request(prompt="hello"))
        for options in ({"temperature": 2.5}, {"temperature": float("nan")}, {"max_tokens": 0}):
            with pytest.raises(ValueError, match="must be in") as refused:
                machines.check(messages.Request(prompt="hello", **options))
            assert getattr(refused.value, "field") in options  # noqa: B009 - untyped plan


def test_admission_bounds_loops_by_the_request() -> None:
    files = compiled(SHIPPED[0])
    with plan_package(files) as (messages, machines):
        admission = machines.admit(messages.Request(prompt="hello", max_tokens=7))
    assert admission.bounds == {"speak.decode": 7}
    assert admission.runs == {"speak": True, "vocoder": True}
    assert admission.options["voice"] == "tara"


def test_the_page_on_plans_shows_real_code() -> None:
    page = (ROOT / "docs/plan.md").read_text(encoding="utf-8")
    plans = (ROOT / "generated").rglob("rank*.py")
    ranks = "\n".join(path.read_text(encoding="utf-8") for path in sorted(plans))
    spec = (ROOT / "specs/orpheus.mstar").read_text(encoding="utf-8")
    shown = [block for block in blocks(page) if block.language in ("python", "mstar")]
    assert len(shown) == 12
    for block in shown:
        assert block.text.strip("\n") in (ranks if block.language == "python" else spec)
