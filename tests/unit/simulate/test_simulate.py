"""A simulation, held against what can be worked out by hand.

Devices of a kind of their own, whose every call takes a second by a profile: times are whole
numbers, and nobody has to believe a cost model.
"""

import json
from pathlib import Path

import pytest

from mstarc import driver
from mstarc.cli.main import run_command
from mstarc.options import CompileOptions
from mstarc.simulate.result import Simulated, result_json, result_text
from mstarc.source import SourceFile
from tests.support.golden import ROOT

SPEC = """mstar 1

model talk

request {
  in  prompt : text
  out speech : audio(24000)
  opt length : int = 4 in 1 .. 64
}

node words : host {
  impl "talk:Words"
  op encode(prompt: text) -> (ids: i64[T])
}

node lm : kv_cache {
  impl "talk:Model"
  weights "talk" size 0.001 GB
  kv { layers = 1, heads = 1, head_dim = 16 }
  op prefill(ids: i64[T]) -> (token: i64)  attends causal  writes
  op step(token: i64)     -> (next: i64)   attends causal  writes
}

node codec : stateless {
  impl "talk:Codec"
  weights "talk" size 0.001 GB
  op decode(codes: i64[2]) -> (pcm: f32[64])
}

stream codes : i64 chunk fixed(2) tail drop empty skip

walk start(ids: i64[T]) -> (token: i64) { token = lm.prefill(ids) }

walk decode(first: i64) {
  loop max length carry token = first while token != 0 {
    send codes <- token
    token = lm.step(token)
  }
}

walk sing(window: i64[2]) {
  pcm = codec.decode(window)
  emit speech <- pcm
}

machine speak {
  state begin {
    ids   = words.encode(prompt)
    token = run start(ids)
    run decode(token)
    next done
  }
}

machine voice {
  state listen {
    each codes as window run sing(window)
    next done
  }
}
"""

# Nothing takes time but the calls.
KINDS = """device_kinds:
  Clock: {like: L40S, launch_s: 0, hop_s: 0, link_bytes_per_s: 1.0e30, memory_bytes: 48e9}
"""
PROFILE = """model: talk
device: Clock
ops:
  words.encode: [{batch: 1, rows: 8, context: 0, seconds: 0.000001}]
  lm.prefill: [{batch: 1, rows: 8, context: 0, seconds: 1.0}]
  lm.step: [{batch: 1, rows: 1, context: 0, seconds: 1.0}, BATCHES]
  codec.decode: [{batch: 1, rows: 2, context: 0, seconds: 0.5}]
"""
BATCHES = ", ".join(
    f"{{batch: {n}, rows: 1, context: 0, seconds: 1.0}}" for n in (2, 4, 8, 16, 32, 64)
)
TOGETHER = """model: talk
devices: 1xClock
max_seq_len: 256
max_concurrent_requests: 64
node_groups:
  - {node_names: [lm, codec], ranks: [0]}
"""
APART = TOGETHER.replace("1xClock", "2xClock").replace(
    "  - {node_names: [lm, codec], ranks: [0]}\n",
    "  - {node_names: [lm], ranks: [0]}\n  - {node_names: [codec], ranks: [1]}\n",
)
TWICE = TOGETHER.replace("1xClock", "2xClock").replace("ranks: [0]", "ranks: [0, 1]")


def source(path: str, text: str) -> SourceFile:
    return SourceFile(path=path, text=text)


def simulated(
    layout: str,
    mix: str = "{rows: 8}",
    *,
    burst: int | None = None,
    rate: float = 1.0,
    seconds: float = 60.0,
    seed: int = 0,
    profile: str = PROFILE,
) -> Simulated:
    options = CompileOptions(
        deployments=(source("d.yaml", layout),),
        kinds=source("kinds.yaml", KINDS),
        profile=source("profile.yaml", profile.replace("BATCHES", BATCHES)),
    )
    found = driver.simulate_program(
        source("talk.mstar", SPEC),
        options,
        source("mix.yaml", f"requests:\n  - {mix}\n"),
        rate=rate,
        seconds=seconds,
        burst=burst,
        seed=seed,
    )
    assert isinstance(found, Simulated), found
    return found


def test_one_request_takes_its_calls_one_after_the_other() -> None:
    """A prefill, four steps, and a chunk of two items each half a second: on one rank 1 + 4 + 1."""
    found = simulated(TOGETHER, burst=1)
    assert found.latency_s[0] == pytest.approx(6.0, abs=0.01)


def test_a_reader_on_a_rank_of_its_own_runs_beside() -> None:
    """The last item is sent by the step before the last one, which nobody reads any more."""
    found = simulated(APART, burst=1)
    assert found.latency_s[0] == pytest.approx(5.0, abs=0.01)


def test_the_first_sound_comes_when_its_chunk_is_full() -> None:
    found = simulated(APART, burst=1)
    assert found.first_output_s[0] == pytest.approx(1 + 1 + 0.5, abs=0.01)


def test_requests_that_step_together_take_the_time_of_one() -> None:
    alone = simulated(APART, "{rows: 8, options: {length: 64}}", burst=1)
    many = simulated(APART, "{rows: 8, options: {length: 64}}", burst=8)
    assert many.requests_per_s > 5 * alone.requests_per_s
    lm = next(use for use in many.ranks if use.rank == 0)
    most = {name: most for name, _, most in lm.batches}
    assert most["speak.begin.decode.pass"] == 8


def test_a_long_prompt_is_read_in_pieces_and_holds_up_nobody() -> None:
    by_rows = PROFILE.replace(
        "lm.prefill: [{batch: 1, rows: 8, context: 0, seconds: 1.0}]",
        "lm.prefill: [{batch: 1, rows: 8, context: 0, seconds: 1.0}, "
        "{batch: 1, rows: 192, context: 0, seconds: 24.0}]",
    )
    asked = ("{rows: 8, options: {length: 8}}", "{rows: 192, options: {length: 8}}")
    first: list[float] = []
    for rows in (256, 16):
        layout = f"{TOGETHER}kv_cache: {{page_size: 16, prefill_tokens: {rows}}}\n"
        found = simulated(layout, "\n  - ".join(asked), burst=8, profile=by_rows)
        assert found.finished == 8
        first.append(found.first_output_s[0])
    assert first[1] < 0.8 * first[0]


def test_no_more_requests_run_than_there_are_slots() -> None:
    found = simulated(TOGETHER.replace("requests: 64", "requests: 2"), burst=6)
    assert found.most_waiting == 4
    assert found.waited_s[2] > 0


def test_two_copies_serve_twice_as_many() -> None:
    one = simulated(TOGETHER.replace("requests: 64", "requests: 1"), burst=8)
    two = simulated(TWICE.replace("requests: 64", "requests: 2"), burst=8)
    assert two.requests_per_s == pytest.approx(2 * one.requests_per_s, rel=0.01)
    assert [use.copy for use in two.ranks] == [0, 1]
    assert two.ranks[0].busy == pytest.approx(two.ranks[1].busy, rel=0.05)


def test_a_group_keeps_all_its_devices_busy() -> None:
    """The steps of a node that two devices hold take both, and half as long by the profile."""
    cut = SPEC.replace('weights "talk" size 0.001 GB\n  kv', "shards tensor\n  kv").replace(
        "heads = 1", "heads = 2"
    )
    layout = APART.replace("2xClock", "3xClock").replace(
        "{node_names: [lm], ranks: [0]}", "{node_names: [lm], ranks: [0, 1], tp_size: 2}"
    )
    layout = layout.replace("ranks: [1]}", "ranks: [2]}")
    options = CompileOptions(
        deployments=(source("d.yaml", layout),),
        kinds=source("kinds.yaml", KINDS),
        profile=source("profile.yaml", PROFILE.replace("BATCHES", BATCHES)),
    )
    mix = source("mix.yaml", "requests:\n  - {rows: 8, options: {length: 32}}\n")
    found = driver.simulate_program(
        source("talk.mstar", cut), options, mix, rate=1.0, seconds=60.0, burst=1
    )
    assert isinstance(found, Simulated), found
    busy = {use.device: use.busy for use in found.ranks}
    assert busy[0] == pytest.approx(busy[1])
    assert busy[2] < busy[0]


def test_passes_are_drawn_and_never_more_than_the_bound() -> None:
    few = simulated(APART, "{rows: 8, passes: {decode: 2}, options: {length: 64}}", burst=1)
    bounded = simulated(APART, "{rows: 8, passes: {decode: 60}, options: {length: 2}}", burst=1)
    assert few.latency_s == bounded.latency_s


def test_a_rate_that_is_too_high_is_seen() -> None:
    kept = simulated(TOGETHER, rate=0.1, seconds=400)
    lost = simulated(TOGETHER, rate=3.0, seconds=400)
    assert kept.keeps_up and kept.has_settled
    assert kept.growth < lost.growth
    assert not lost.keeps_up
    assert lost.ranks[0].busy > 0.95


def test_the_same_seed_gives_the_same_answer() -> None:
    mix = "{rows: 4..40, passes: {decode: 1..60}, options: {length: 64}}"
    first = simulated(APART, mix, rate=0.3, seed=3)
    assert simulated(APART, mix, rate=0.3, seed=3) == first
    assert simulated(APART, mix, rate=0.3, seed=4) != first


def test_the_answer_is_shown_as_text_and_as_json() -> None:
    found = simulated(APART, burst=4)
    text = result_text(found)
    assert "4 of 4 requests are over" in text
    assert "to first output" in text
    assert "rank 1" in text
    document = json.loads(result_json(found))
    assert document["finished"] == 4
    assert set(document["latency_s"]) == {"p50", "p90", "p99"}


def test_a_reader_that_is_slow_holds_its_sender_back() -> None:
    """Back-pressure: items wait for room, and the sender ends hardly before its reader."""
    slow = PROFILE.replace("seconds: 0.5", "seconds: 8.0")
    options = CompileOptions(
        deployments=(source("d.yaml", APART),),
        kinds=source("kinds.yaml", KINDS),
        profile=source("profile.yaml", slow.replace("BATCHES", BATCHES)),
    )
    found = driver.simulate_program(
        source("talk.mstar", SPEC),
        options,
        source("mix.yaml", "requests:\n  - {rows: 8, options: {length: 64}}\n"),
        rate=1.0,
        seconds=60.0,
        burst=1,
    )
    assert isinstance(found, Simulated)
    assert found.latency_s[0] == pytest.approx(1 + 1 + 32 * 8, abs=0.1)


@pytest.mark.parametrize("spec", sorted(path.stem for path in (ROOT / "specs").glob("*.mstar")))
def test_every_shipped_spec_is_simulated(spec: str) -> None:
    path = Path(ROOT / f"specs/{spec}.mstar")
    options = CompileOptions(placements=("2xH200",))
    found = driver.simulate_program(
        source(f"specs/{spec}.mstar", path.read_text(encoding="utf-8")),
        options,
        source("mix.yaml", "requests: [{passes: {decode: 20}, rows: 64}]\n"),
        rate=1.0,
        seconds=5.0,
        burst=2,
    )
    assert isinstance(found, Simulated), found
    assert found.finished == 2


def test_a_plan_is_simulated_as_it_was_placed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not as it would be placed now: by another objective, or by a file that is not at hand."""
    spec = str(ROOT / "specs/orpheus.mstar")
    mix = tmp_path / "mix.yaml"
    mix.write_text("requests: [{passes: {decode: 20}, rows: 64}]\n", encoding="utf-8")
    file = str(ROOT / "specs/deployments/orpheus_2replicas.yaml")
    for name, words in (
        ("2xH200", ["--placement", "2xH200", "--objective", "throughput"]),
        ("orpheus_2replicas", ["--deployment", file]),
    ):
        plan = str(tmp_path / name)
        assert run_command(["compile", spec, *words, "-o", plan]) == 0
        capsys.readouterr()
        asked = ["--burst", "4", "--requests", str(mix), "--format", "json"]
        assert run_command(["simulate", plan, "--placement", name, *asked]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["placement"] == name
        assert max(use["copy"] for use in answer["ranks"]) == 1


def test_a_thousand_devices_are_simulated_as_alike_parts() -> None:
    path = Path(ROOT / "specs/orpheus.mstar")
    options = CompileOptions(placements=("1024xH200",), objective="throughput")
    found = driver.simulate_program(
        source("specs/orpheus.mstar", path.read_text(encoding="utf-8")),
        options,
        source("mix.yaml", "requests: [{passes: {decode: 40}, rows: 64}]\n"),
        rate=400.0,
        seconds=4.0,
    )
    assert isinstance(found, Simulated)
    assert found.cells == 1024
    assert "simulated as one" in result_text(found)


def test_a_rate_and_a_burst_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    spec = str(ROOT / "specs/orpheus.mstar")
    assert run_command(["simulate", spec, "--rate", "1", "--burst", "2"]) == 2
    assert "leave --rate or --burst out" in capsys.readouterr().out


def test_a_run_that_ends_too_early_says_so_and_shows_no_times(
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec = str(ROOT / "specs/orpheus.mstar")
    words = ["--placement", "cpu", "--rate", "1", "--seconds", "2"]
    assert run_command(["simulate", spec, *words]) == 0
    shown = capsys.readouterr().out
    assert "has not settled" in shown
    assert "  latency                        -         -         -" in shown
