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


def stretches(made: dict[str, str]) -> dict[str, int]:
    """Of each step that has one."""
    (rank,) = (text for name, text in made.items() if name.endswith("rank0.py"))
    steps = re.findall(r"    DeviceStep\(\n(.*?)\n    \),", rank, re.DOTALL)
    return {
        match[1]: int(found[1])
        for step in steps
        if (found := re.search(r"stretch=(\d+)", step)) and (match := re.search(r'"(.*?)"', step))
    }


def test_a_decoder_on_a_gpu_runs_in_stretches_and_the_report_says_so() -> None:
    made = files(ORPHEUS.source.text)
    assert stretches(made) == {PASS: 4}
    assert (
        "| `decode.0` |    0 | `decode/0` | 1, 2, 4, 8, 16, 32, 64 |       4 |" in made["REPORT.md"]
    )
    # A window and its stride, and what two stretches send.
    assert "capacity=43" in made["placements/1xH200/rank0.py"]


def test_on_a_cpu_the_host_looks_at_each_pass() -> None:
    made = files(ORPHEUS.source.text, "cpu")
    assert stretches(made) == {}
    assert "capacity=35" in made["placements/cpu/rank0.py"]
    assert "stretch" not in made["REPORT.md"]


@pytest.mark.parametrize(("asked", "found"), [(0, 0), (2, 2), (7, 7), (16, 7)])
def test_a_deployment_says_how_many_at_most_and_a_chunk_is_not_made_to_wait(
    asked: int, found: int
) -> None:
    deployment = f"""
model: orpheus
devices: 1xH200
stretch: {asked}
node_groups:
  - node_names: [frontend, lm, codec]
    ranks: [0]
"""
    wanted = {PASS: found} if found else {}
    assert stretches(files(ORPHEUS.source.text, deployment=deployment)) == wanted


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
    assert "stretch=1" in ranks["rank0"]
