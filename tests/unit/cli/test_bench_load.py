"""`mstarc bench` with a load: what it asks of whom, and that all of it is measured and kept."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mstarc.cli import bench_load
from mstarc.cli.main import run_command
from tests.support.fake_server import fake_server
from tests.support.golden import ROOT

SPEC, SIZES = ROOT / "specs" / "orpheus.mstar", ROOT / "specs" / "tiny" / "orpheus.yaml"


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench") / "tiny"
    words = ["compile", str(SPEC), "--sizes", str(SIZES), "--placement", "cpu", "-o", str(folder)]
    assert run_command(words) == 0
    return folder


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The jobs that the runtime would be given."""
    given: list[dict[str, Any]] = []
    monkeypatch.setattr(bench_load, "_measure", lambda job: given.append(job) or 0)
    return given


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'runtime'}")


def test_a_mix_gives_kinds_of_requests_and_options_give_loads(
    plan: Path, jobs: list[dict[str, Any]], tmp_path: Path
) -> None:
    mix = tmp_path / "mix.yaml"
    mix.write_text("requests:\n  - {share: 3, rows: 4..9, options: {max_tokens: 60, voice: leo}}\n")
    words = ["bench", str(plan), "--requests", str(mix), "--concurrency", "1,4", "--rate", "0.5"]
    assert run_command([*words, "--slo", "first_sound=0.5,rtf=1", "--buckets", "4,1"]) == 0
    (job,) = jobs
    assert job["targets"] == [{"name": "tiny", "plan": str(plan), "placement": None}]
    (kind,) = job["kinds"]
    assert kind["rows"] == [4, 9]
    assert kind["options"] == {"max_tokens": 60, "voice": "leo"}
    assert [(load["kind"], load["size"]) for load in job["loads"]] == [
        ("waves", 1),
        ("waves", 4),
        ("open", 0.5),
    ]
    assert job["slo"] == {"first_sound": 0.5, "rtf": 1.0}
    assert job["run"]["buckets"] == [4, 1]


def test_plans_placements_and_servers_are_measured_beside_each_other(
    plan: Path, jobs: list[dict[str, Any]]
) -> None:
    words = ["bench", "http://host:8000", str(plan), "--concurrency", "1"]
    assert run_command([*words, "--placement", "cpu", "--placement", "2xcpu", "--refill"]) == 0
    (job,) = jobs
    assert [target["name"] for target in job["targets"]] == [
        "host:8000",
        "tiny@cpu",
        "tiny@2xcpu",
    ]
    assert job["loads"] == [{"kind": "refill", "size": 1}]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--concurrency", "1"], "a PLAN, or the URL of a server"),
        (["PLAN", "--concurrency", "0"], "whole numbers above zero"),
        (["PLAN", "--rate", "fast"], "numbers above zero"),
        (["PLAN", "--concurrency", "1", "--slo", "speed=1"], "first_sound"),
        (["PLAN", "--concurrency", "1", "--slo", "rtf"], "NAME=MOST"),
        (["PLAN", "--concurrency", "1", "--weights", "lm"], "NODE=SOURCE"),
        (["PLAN", "PLAN", "--concurrency", "1"] + 3 * ["--placement", "cpu"], "there are 2 plans"),
        (["nowhere", "--concurrency", "1"], "`nowhere` is not a plan"),
        (["PLAN", "--concurrency", "1", "--requests", "no.yaml"], "could not be read"),
    ],
)
def test_what_is_wrong_is_said(
    plan: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(plan) if word == "PLAN" else word for word in words]
    assert run_command(["bench", *given]) == 2
    assert said in capsys.readouterr().out


def test_a_plan_and_a_server_are_measured_and_all_of_it_is_kept(
    plan: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    mix = tmp_path / "mix.yaml"
    mix.write_text("requests:\n  - {rows: 4, options: {max_tokens: 36}}\n")
    out, svg, trace = (tmp_path / name for name in ("r.json", "r.svg", "t.json"))
    with fake_server() as server:
        words = ["bench", str(plan), server.url, "--requests", str(mix), "--concurrency", "2"]
        words += ["--count", "2", "--warmup", "0", "--threads", "1", "--slo", "first_sound=60"]
        words += ["--out", str(out), "--svg", str(svg), "--trace", str(trace)]
        assert run_command(words) == 0
    result = json.loads(out.read_text())
    ours, theirs = result["targets"]
    figures = ours["loads"][0]["figures"]
    assert (figures["requests"], figures["failed"]) == (2, 0)
    assert figures["tokens"] == 2 * 36
    assert figures["sound_s"] == pytest.approx(2 * 2 * 2048 / 24_000)
    assert figures["goodput"]["share"] == 1.0
    assert ours["facts"]["plan_digest"] == json.loads((plan / "plan.json").read_text())["digest"]
    assert ours["facts"]["ready_s"] > 0
    assert {entry["walk"] for entry in ours["facts"]["eager_fallbacks"]} >= {"speak.decode.pass"}
    assert theirs["loads"][0]["figures"]["sound_s"] == pytest.approx(2 * 36 * 2048 / 24_000)
    assert result["settings"]["extent"]["count"] == 2
    assert result["ratios"][0]["ratios"]["sound_s_per_s"] > 0
    assert svg.read_text().startswith("<svg")
    assert json.loads((tmp_path / "t-tiny.json").read_text())["traceEvents"]
    shown = capfd.readouterr()
    assert "2 at once" in shown.out
    assert "\x1b" not in shown.out
    assert "rank 0: device busy" in shown.err


def test_a_plan_that_cannot_be_run_is_said_by_the_runtime(
    plan: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "r.json"
    words = ["bench", str(plan), "--concurrency", "1", "--require-graphs", "--out", str(out)]
    assert run_command(words) == 2
    assert "MS9013" in capfd.readouterr().err
    assert not out.exists()


def test_whoever_ends_the_command_ends_all_it_has_begun(tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    with fake_server() as server:
        words = [sys.executable, "-m", "mstarc", "bench", server.url, "--concurrency", "1"]
        process = subprocess.Popen(
            [*words, "--seconds", "600", "--out", str(out)],
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert server.was_asked.wait(60)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert not out.exists()
    with pytest.raises(ProcessLookupError):  # nobody is left of its group
        os.killpg(process.pid, 0)
