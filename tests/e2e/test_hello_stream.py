"""The shipped example, from spec to files: compiled, run in one process and in two."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.run_here import run_here

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "hello_stream"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'runtime'}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_example_says_the_same_in_one_process_and_in_two(tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    compiled = run(
        *("mstarc", "compile", str(EXAMPLE / "hello_stream.mstar")),
        *("--sizes", str(EXAMPLE / "sizes.yaml"), "--placement", "cpu", "--placement", "2xcpu"),
        *("-o", str(plan)),
    )
    assert compiled.returncode == 0, compiled.stderr
    made = {}
    for placement in ("cpu", "2xcpu"):
        out = tmp_path / placement
        words = ("--input", "prompt=hello", "--out", str(out), "--seed", "3")
        done = run_here(plan, "--placement", placement, *words)
        assert done.status == 0, done.err
        made[placement] = {path.name: path.read_bytes() for path in out.iterdir()}
        assert done.out == f"reply: {made[placement]['reply.txt'].decode()}"
    assert made["cpu"] == made["2xcpu"]
    assert set(made["cpu"]) == {"reply.txt", "song.wav"}


def test_an_answer_without_an_item_is_empty_and_ends(tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    run(
        *("mstarc", "compile", str(EXAMPLE / "hello_stream.mstar")),
        *("--sizes", str(EXAMPLE / "sizes.yaml"), "-o", str(plan)),
    )
    done = run(
        *("mstarc_runtime", str(plan), "--threads", "1", "--input", "prompt=hello"),
        *("--option", "max_tokens=0", "--out", str(tmp_path / "out")),
    )
    assert done.returncode == 0, done.stderr
    assert "is empty" in done.stderr
    assert not (tmp_path / "out").exists()
