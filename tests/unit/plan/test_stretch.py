"""At how many passes of a loop the host looks once: what the plan says, and why not more."""

import re

import pytest

from mstarc import driver
from mstarc.options import CompileOptions
from mstarc.source import SourceFile
from tests.support.golden import ROOT
from tests.support.shipped_specs import SPECS_BY_NAME

ORPHEUS = SPECS_BY_NAME["orpheus"]
PASS = "speak.decode.pass"


def files(text: str, placement: str = "1xH200", deployment: str | None = None) -> dict[str, str]:
    given = (SourceFile(path="d.yaml", text=deployment),) if deployment else ()
    options = CompileOptions(
        placements=() if given else (placement,), deployments=given, sizes=ORPHEUS.sizes
    )
    outcome = driver.compile_spec(SourceFile(path="orpheus.mstar", text=text), options)
    assert outcome.files is not None, [found.message for found in outcome.diagnostics]
    return dict(outcome.files)


def stretches(made: dict[str, str], kind: str = "stretch", rank: int = 0) -> dict[str, int]:
    """Of each step that has one."""
    (text,) = (text for name, text in made.items() if name.endswith(f"rank{rank}.py"))
    steps = re.findall(r"    DeviceStep\(\n(.*?)\n    \),", text, re.DOTALL)
    return {
        match[1]: int(found[1])
        for step in steps
        if (found := re.search(rf"\b{kind}=(\d+)", step)) and (match := re.search(r'"(.*?)"', step))
    }


def test_a_decoder_on_a_gpu_runs_in_stretches_and_the_report_says_so() -> None:
    made = files(ORPHEUS.source.text)
    assert stretches(made) == {PASS: 4}
    assert "| 1, 2, 4, 8, 16, 32, 64 |       4 |" in made["REPORT.md"]
    # A window and its stride, and what two stretches send.
    assert "capacity=43" in made["placements/1xH200/rank0.py"]


def test_on_a_cpu_the_host_looks_at_each_pass() -> None:
    made = files(ORPHEUS.source.text, "cpu")
    assert stretches(made) == {}
    assert "capacity=35" in made["placements/cpu/rank0.py"]
    assert "stretch" not in made["REPORT.md"]


@pytest.mark.parametrize(("asked", "found"), [(0, None), (2, None), (7, None), (16, 7)])
def test_a_deployment_says_how_many_at_most_and_a_chunk_is_not_made_to_wait(
    asked: int, found: int | None
) -> None:
    deployment = f"""
model: orpheus
devices: 1xH200
stretch: {asked}
node_groups:
  - node_names: [frontend, lm, codec]
    ranks: [0]
"""
    made = files(ORPHEUS.source.text, deployment=deployment)
    assert stretches(made) == ({PASS: asked} if asked else {})
    assert stretches(made, "read_stretch") == ({PASS: found} if found else {})


def test_a_pass_of_one_node_of_which_ranks_hold_parts_has_one() -> None:
    deployment = """
model: orpheus
devices: 2xH200
node_groups:
  - node_names: [frontend, codec]
    ranks: [0]
  - node_names: [lm]
    ranks: [0, 1]
    tp_size: 2
"""
    assert stretches(files(ORPHEUS.source.text, deployment=deployment)) == {PASS: 4}


def test_a_pass_of_several_nodes_of_which_one_is_cut_has_none() -> None:
    omni = SPECS_BY_NAME["qwen3_omni"]
    path = "specs/deployments/qwen3omni_full_tp2_4gpu.yaml"
    deployment = SourceFile(path=path, text=(ROOT / path).read_text("utf-8"))
    options = CompileOptions(deployments=(deployment,), sizes=omni.sizes)
    outcome = driver.compile_spec(omni.source, options)
    assert outcome.files is not None
    ranks = {name[-8:-3]: text for name, text in outcome.files.items() if "/rank" in name}
    # The Talker's pass calls the predictor as well.
    assert "talker_decode.pass" in ranks["rank2"] and "stretch=" not in ranks["rank2"]
    # Of the Thinker's each pass is one chunk, where somebody reads it.
    thinker = "think.decode.thinker_decode.pass"
    assert stretches(dict(outcome.files))[thinker] == 4
    assert stretches(dict(outcome.files), "read_stretch")[thinker] == 1
    assert " 4 (1) |" in outcome.files["REPORT.md"]
