"""Real processes: the same bytes, a worker that dies, one that can't start, Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mstarc_runtime.assembly import RunSettings
from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.launch import run_until_done
from mstarc_runtime.loader import load_placement, load_plan
from mstarc_runtime.process_ranks import ProcessRanks
from mstarc_runtime.request import Asked, prepare
from mstarc_runtime.weights.progress import PlainProgress
from tests.runtime.plan_folder import seal, write_plan
from tests.runtime.rig import Collected, nowhere
from tests.support.run_here import run_here

ROOT = Path(__file__).parents[2]


@pytest.fixture
def plan_folder(tmp_path: Path) -> Path:
    return write_plan("orpheus", tmp_path)


@pytest.fixture
def sockets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where sockets are made; short, as a socket's path must be. Empty again afterwards."""
    with tempfile.TemporaryDirectory(prefix="e2e-") as name:
        before = tempfile.tempdir
        tempfile.tempdir = name
        yield Path(name)
        tempfile.tempdir = before
        assert list(Path(name).iterdir()) == []


def make_ranks(plan_folder: Path) -> ProcessRanks:
    plan = load_plan(plan_folder)
    return ProcessRanks(
        plan,
        load_placement(plan, "2xcpu"),
        settings=RunSettings(cache_dir=plan_folder / "cache", threads=1),
        progress=PlainProgress(nowhere()),
        say=lambda text: None,
        start_timeout_s=120,
    )


def submit(ranks: ProcessRanks, plan_folder: Path, tokens: int) -> Collected:
    asked = Asked(inputs={"prompt": "hello"}, options={"max_tokens": tokens})
    made = Collected()
    ranks.conductor.submit(prepare(load_plan(plan_folder), asked), made)
    return made


def run(plan: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mstarc_runtime", str(plan), "--threads", "1", *arguments],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'runtime'}", **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_file_of_requests_gives_the_same_bytes_on_one_rank_and_on_two(
    plan_folder: Path, tmp_path: Path
) -> None:
    requests = [
        {"name": name, "inputs": {"prompt": name * 3}, "options": {"max_tokens": 45}, "seed": seed}
        for seed, name in enumerate(["one", "two", "three"])
    ]
    (tmp_path / "requests.json").write_text(json.dumps(requests))
    sounds = {}
    for placement in ("cpu", "2xcpu"):
        out = tmp_path / placement
        done = run_here(
            plan_folder,
            *("--placement", placement, "--out", str(out)),
            *("--request", str(tmp_path / "requests.json")),
        )
        assert done.status == 0, done.err
        assert "real-time factor" in done.err
        files = sorted(path.relative_to(out).as_posix() for path in out.rglob("*.*"))
        assert files == ["one/speech.wav", "three/speech.wav", "two/speech.wav"]
        sounds[placement] = [(out / name).read_bytes() for name in files]
    assert sounds["cpu"] == sounds["2xcpu"]
    assert len(set(sounds["cpu"])) == 3


def test_a_killed_worker_is_noticed_and_its_requests_end_with_an_error(
    plan_folder: Path, sockets: Path
) -> None:
    ranks = make_ranks(plan_folder)
    try:
        made = submit(ranks, plan_folder, tokens=400)
        while "sound" not in made.events:
            if not ranks.turn():
                ranks.wait(0.05)
        os.kill(ranks.pids[1], signal.SIGKILL)
        killed = time.monotonic()
        run_until_done(ranks)
        assert time.monotonic() - killed < 2.0
        assert made.failure is not None
        assert made.failure.code == "MS9301"
        assert "rank 1" in made.failure.message
        assert "SIGKILL" in made.failure.message
        assert ranks.conductor.broken is made.failure
    finally:
        ranks.close()


def test_a_worker_that_dies_while_it_starts_is_reported(plan_folder: Path, sockets: Path) -> None:
    rank = plan_folder / "placements" / "2xcpu" / "rank1.py"
    rank.write_text(rank.read_text() + "\nimport os\n\nos._exit(3)\n")
    seal(plan_folder)
    with pytest.raises(RuntimeFailure) as caught:
        make_ranks(plan_folder)
    assert caught.value.code == "MS9302"
    assert "rank 1" in caught.value.message
    assert "exit status 3" in caught.value.message


def test_what_keeps_a_worker_from_starting_is_told_with_its_code(
    plan_folder: Path, sockets: Path
) -> None:
    rank = plan_folder / "placements" / "2xcpu" / "rank1.py"
    rank.write_text(rank.read_text().replace("orpheus:SnacDecoder", "orpheus:SnacDecoded"))
    seal(plan_folder)
    with pytest.raises(RuntimeFailure) as caught:
        make_ranks(plan_folder)
    assert caught.value.code == "MS9008"


@pytest.mark.parametrize(
    ("placement", "ends"),
    [
        ("cpu", [signal.SIGINT]),
        ("2xcpu", [signal.SIGINT, signal.SIGINT]),  # a person who presses Ctrl-C twice
        ("2xcpu", [signal.SIGHUP]),  # a terminal that is closed
    ],
)
def test_an_interrupt_leaves_no_process_and_no_file(
    plan_folder: Path, tmp_path: Path, placement: str, ends: list[signal.Signals]
) -> None:
    out = tmp_path / "out"
    temporary = tmp_path / "t"
    temporary.mkdir()
    process = start(plan_folder, out, placement, temporary)
    children = child_ids(process.pid)
    assert len(children) == (2 if placement == "2xcpu" else 0)
    for number in ends:
        process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert "interrupted" in said
    assert not out.exists()
    assert list(temporary.iterdir()) == []
    for child in children:
        assert not Path(f"/proc/{child}").exists()


def test_an_interrupt_while_torch_is_loaded_shows_no_trace(plan_folder: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-v", "-m", "mstarc_runtime", str(plan_folder), "--input", "prompt=hi"],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'runtime'}"},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    while "import 'torch._C" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=30)[1]
    assert process.returncode == 130
    assert said.endswith("interrupted\n")
    assert "Traceback" not in said


def test_an_interrupt_while_ranks_load_torch_shows_no_trace(plan_folder: Path) -> None:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "mstarc_runtime", str(plan_folder)),
            *("--placement", "2xcpu", "--input", "prompt=hi"),
        ],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'runtime'}"},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while [ignores_interrupts(child) for child in child_ids(process.pid)] != [True, True]:
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    said = process.communicate(timeout=30)[1]
    assert process.returncode == 130
    assert "Traceback" not in said


def test_a_folder_with_too_long_a_path_for_sockets_is_said(
    plan_folder: Path, tmp_path: Path
) -> None:
    temporary = tmp_path / ("t" * 100)
    temporary.mkdir()
    asked = ("--placement", "2xcpu", "--input", "prompt=hi")
    done = run(plan_folder, *asked, TMPDIR=str(temporary))
    assert done.returncode == 2
    assert "error[MS9308]" in done.stderr
    assert "`TMPDIR`" in done.stderr
    assert list(temporary.iterdir()) == []


def test_ranks_whose_conductor_is_killed_end_and_remove_their_sockets(
    plan_folder: Path, tmp_path: Path
) -> None:
    temporary = tmp_path / "t"
    temporary.mkdir()
    process = start(plan_folder, tmp_path / "out", "2xcpu", temporary)
    children = child_ids(process.pid)
    assert len(children) == 2
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 10
    while any(is_running(child) for child in children):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert list(temporary.iterdir()) == []


def ignores_interrupts(process: int) -> bool:
    """Whether a process has come to where Ctrl-C is not its own affair."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("SigIgn:"):
            return bool(int(line.split()[1], 16) & 1 << (signal.SIGINT - 1))
    return False


def is_running(process: int) -> bool:
    """Whether it lives; a zombie that nobody has waited for does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def start(plan: Path, out: Path, placement: str, temporary: Path) -> "subprocess.Popen[str]":
    """A run whose sound has begun to be written."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "mstarc_runtime", str(plan), "--threads", "1"),
            *("--placement", placement, "--input", "prompt=hello", "--out", str(out)),
            *("--option", "max_tokens=480"),
        ],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'runtime'}", "TMPDIR": str(temporary)},
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 180
    while not list(out.glob("*.part")):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process


def child_ids(parent: int) -> list[int]:
    text = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(word) for word in text.split()]
