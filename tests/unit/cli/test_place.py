"""`mstarc place`: the answer for people and for programs, from a spec and from a plan alike."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mstarc import driver
from mstarc.cli.main import run_command
from mstarc.ir.decisions import Assignment, Placement
from mstarc.ir.text import parse_program
from mstarc.options import CompileOptions
from mstarc.show.deployment import deployment_text
from mstarc.source import SourceFile
from tests.support.golden import ROOT

ORPHEUS = str(ROOT / "specs/orpheus.mstar")
OBJECTIVES = ("latency", "throughput", "cost")


def placed(spec: str, options: CompileOptions) -> Placement:
    """Where the pass puts it."""
    source = SourceFile(path=spec, text=Path(spec).read_text(encoding="utf-8"))
    outcome = driver.compile_spec(source, replace(options, stop_after="place", dump_after="place"))
    placement = parse_program(outcome.dump, "placed.mir").placement
    assert placement is not None
    return placement


def test_the_answer_has_a_picture_the_bottleneck_memory_and_what_follows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["--placement", "2xH200", "--objective", "throughput", "--runners-up", "2"]
    assert run_command(["place", ORPHEUS, *words]) == 0
    shown = capsys.readouterr().out
    assert "orpheus on 2xH200, best throughput:" in shown
    assert "rank 0 and 1" in shown
    assert "bottleneck: rank 0" in shown
    assert "device 0-1" in shown and "weights" in shown
    assert shown.count("% worse") == 2
    assert "\x1b" not in shown


def test_what_telling_other_ranks_of_shards_takes_is_a_line_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Of no memory for a whole decoder.
    kinds = tmp_path / "kinds.yaml"
    kinds.write_text("device_kinds:\n  H200: {memory_bytes: 6.0e9, shard_call_s: 0.01}\n")
    words = ["place", ORPHEUS, "--placement", "2xH200", "--devices", str(kinds)]
    assert run_command(words) == 0
    (line,) = [one for one in capsys.readouterr().out.splitlines() if one.startswith("shards:")]
    assert "of a request told to other ranks, which takes" in line
    assert run_command([*words, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["choice"]["telling_s"] > 1


def test_a_plan_is_placed_as_its_spec_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = str(tmp_path / "plan")
    assert run_command(["compile", ORPHEUS, "-o", plan]) == 0
    capsys.readouterr()
    for objective in OBJECTIVES:
        words = ["--placement", "4xH200", "--objective", objective, "--format", "json"]
        assert run_command(["place", ORPHEUS, *words]) == 0
        of_spec = json.loads(capsys.readouterr().out)
        assert run_command(["place", plan, *words]) == 0
        assert json.loads(capsys.readouterr().out) == of_spec


def test_the_best_is_never_worse_than_a_runner_up(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--placement", "3xH200", "--objective", "cost", "--format", "json"]
    assert run_command(["place", ORPHEUS, *words]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert len(answer["runners_up"]) == 4
    assert all(other["worse_by"] >= 0 for other in answer["runners_up"])
    assert answer["choice"]["devices"] == 1


@pytest.mark.parametrize("devices", ["2xcpu", "5xcpu", "6xH200"])
@pytest.mark.parametrize("spec", ["orpheus", "bagel", "voice_chat"])
def test_what_is_written_is_read_back_to_the_same_layout(
    spec: str, devices: str, tmp_path: Path
) -> None:
    path = str(ROOT / f"specs/{spec}.mstar")
    target = tmp_path / "found.yaml"
    assert run_command(["place", path, "--placement", devices, "--write", str(target)]) == 0
    file = SourceFile(path="found.yaml", text=target.read_text(encoding="utf-8"))
    automatic = placed(path, CompileOptions(placements=(devices,)))
    written = placed(path, CompileOptions(deployments=(file,)))
    assert set(written.assignments) == set(automatic.assignments)
    assert written.copies == automatic.copies
    assert (written.max_requests, written.max_tokens) == (
        automatic.max_requests,
        automatic.max_tokens,
    )


def test_a_node_with_walks_elsewhere_is_written_with_those_that_are_left() -> None:
    source = SourceFile(path=ORPHEUS, text=Path(ORPHEUS).read_text(encoding="utf-8"))
    options = CompileOptions(placements=("2xcpu",), stop_after="place", dump_after="place")
    program = parse_program(driver.compile_spec(source, options).dump, "placed.mir")
    assert program.placement is not None
    assignments = (
        Assignment(node="frontend", ranks=(0,)),
        Assignment(node="lm", ranks=(0,)),
        Assignment(node="lm", ranks=(1,), walks=("decode",)),
        Assignment(node="codec", ranks=(1,)),
    )
    apart = replace(program.placement, assignments=assignments, copies=())
    text = deployment_text(replace(program, placement=apart))
    assert text.count("graph_walks: [start]") == text.count("graph_walks: [decode]") == 1
    written = placed(
        ORPHEUS, CompileOptions(deployments=(SourceFile(path="found.yaml", text=text),))
    )
    assert written.assignment("lm", "start", None).ranks == (0,)
    assert written.assignment("lm", "decode", None).ranks == (1,)


def test_few_requests_at_once_go_together_and_many_to_copies(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = {}
    for at_once in ("8", "400"):
        words = ["--placement", "2xH200", "--objective", "throughput", "--at-once", at_once]
        assert run_command(["place", ORPHEUS, *words]) == 0
        said[at_once] = capsys.readouterr().out
        assert f"for {at_once} requests at once on all copies together" in said[at_once]
    assert "lm (1/2)" in said["8"].split("bottleneck")[0]
    assert "rank 0 and 1" in said["400"]


@pytest.mark.parametrize("at_once", ["8", "400"])
def test_compile_compiles_what_place_finds(
    at_once: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mix = tmp_path / "mix.yaml"
    mix.write_text("requests:\n  - {rows: 16, options: {max_tokens: 64}}\n", encoding="utf-8")
    words = ["--placement", "2xH200", "--objective", "throughput", "--at-once", at_once]
    words += ["--requests", str(mix), "--set", "max_seq_len=2048"]
    found = tmp_path / "found.yaml"
    assert run_command(["place", ORPHEUS, *words, "--write", str(found)]) == 0
    assert run_command(["compile", ORPHEUS, *words, "-o", str(tmp_path / "plan")]) == 0
    placement = tmp_path / "plan" / "placements" / "2xH200" / "placement.json"
    words = ["--deployment", str(found), "--set", "max_seq_len=2048"]
    assert run_command(["compile", ORPHEUS, *words, "-o", str(tmp_path / "again")]) == 0
    (again,) = (tmp_path / "again" / "placements").glob("*/placement.json")
    written, made = json.loads(again.read_text()), json.loads(placement.read_text())
    assert written["assignments"] == made["assignments"]
    assert len(written["processes"]) == len(made["processes"]) == 2


def test_what_is_searched_is_refused_beside_a_deployment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(ROOT / "specs/deployments/orpheus.yaml")
    words = ["compile", ORPHEUS, "--deployment", file, "-o", str(tmp_path / "plan")]
    assert run_command([*words, "--at-once", "8"]) == 2
    assert "leave --at-once out" in capsys.readouterr().out


def test_what_a_node_keeps_beside_its_weights_counts_also_when_a_plan_is_placed_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, plan = str(ROOT / "specs/pi05.mstar"), tmp_path / "plan"
    sizes = ["--sizes", str(ROOT / "benchmarks/pi05_bf16x6.yaml")]
    words = ["--placement", "H200", "--format", "json"]
    assert run_command(["place", spec, *words, *sizes]) == 0
    said = json.loads(capsys.readouterr().out)["memory"]
    kept = [row for row in said if row["what"] == "kept"]
    assert kept == [{"device": 0, "what": "kept", "of": "vit_encoder", "bytes": 5 * 10**9}]
    words = ["--placement", "H200"]
    assert run_command(["compile", spec, *words, *sizes, "-o", str(plan)]) == 0
    placement = json.loads((plan / "placements/1xH200/placement.json").read_text())
    rows = {(row["what"], row["of"]): row["bytes"] for row in placement["memory"]}
    assert rows["kept", "vit_encoder"] == 5 * 10**9
    assert run_command(["place", str(plan), *words, "--format", "json"]) == 0
    again = json.loads(capsys.readouterr().out)["memory"]
    assert again == said


def test_nodes_that_keep_more_than_a_device_has_are_placed_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = tmp_path / "sizes.yaml"
    found = []
    for kept in ("1 GB", "60 GB"):
        sizes.write_text(f"weights:\n  lm: {{kept: {kept}}}\n  codec: {{kept: {kept}}}\n")
        words = ["--placement", "2xH100", "--objective", "cost", "--sizes", str(sizes)]
        assert run_command(["place", ORPHEUS, *words, "--format", "json"]) == 0
        found.append({row["device"] for row in json.loads(capsys.readouterr().out)["memory"]})
    assert found == [{0}, {0, 1}]


def test_requests_change_what_is_best(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mix = tmp_path / "mix.yaml"
    mix.write_text("requests:\n  - {rows: 2000, options: {max_tokens: 8}}\n", encoding="utf-8")
    seconds = []
    for words in ([], ["--requests", str(mix)]):
        arguments = ["place", ORPHEUS, "--placement", "1xH200", "--format", "json", *words]
        assert run_command(arguments) == 0
        seconds.append(json.loads(capsys.readouterr().out)["choice"]["latency_s"])
    assert seconds[1] < seconds[0] / 10


def test_passes_of_a_loop_count_as_the_option_that_bounds_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = []
    for text in ("{options: {max_tokens: 100}}", "{passes: {decode: 50..150}}"):
        mix = tmp_path / "mix.yaml"
        mix.write_text(f"requests:\n  - {text}\n", encoding="utf-8")
        words = ["--placement", "1xH200", "--format", "json", "--requests", str(mix)]
        assert run_command(["place", ORPHEUS, *words]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0] == answers[1]


def test_sizes_of_a_plan_are_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--placement", "cpu", "--sizes", str(ROOT / "specs/tiny/orpheus.yaml")]
    assert run_command(["place", str(ROOT / "generated/orpheus"), *words]) == 2
    assert "leave --sizes out" in capsys.readouterr().out


def test_what_fits_nowhere_is_refused_with_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    spec = str(ROOT / "specs/qwen3_omni.mstar")
    assert run_command(["place", spec, "--placement", "1xRTX4090"]) == 1
    shown = capsys.readouterr().out
    assert "MS0617" in shown


def test_a_cluster_of_a_thousand_devices_is_placed(capsys: pytest.CaptureFixture[str]) -> None:
    spec = str(ROOT / "specs/qwen3_omni.mstar")
    words = ["--placement", "1024xH200", "--objective", "throughput", "--format", "json"]
    assert run_command(["place", spec, *words]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["choice"]["devices"] == 1024
    taken = [copy["device"] for copy in answer["choice"]["copies"]]
    ranks = {rank for a in answer["choice"]["assignments"] for rank in a["ranks"]}
    assert sorted([*taken, *ranks]) == list(range(1024))


def test_no_line_is_wider_than_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run_command(["place", str(ROOT / "specs/qwen3_omni.mstar"), "--placement", "4xH200"]) == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert any("thinker (1/" in line for line in lines)
    assert max(len(line) for line in lines) <= 100
