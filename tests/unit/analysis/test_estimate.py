"""What ops and layouts are estimated to cost, by numbers that can be worked out by hand."""

from dataclasses import replace

import pytest

from mstarc.analysis.cost_table import CostTable, Mix, cost_table
from mstarc.analysis.estimate import Draft, Estimate, estimate
from mstarc.analysis.lengths import expected_rows, full_rows
from mstarc.analysis.memory import Limits
from mstarc.analysis.op_costs import find_op, rows_of, seconds, tensor_sizes, work
from mstarc.deployment import DeviceKind, device_kind, parse_devices
from mstarc.deployment.profile import MeasuredProfile, OpPoint
from mstarc.ir.decisions import Assignment, Copy
from mstarc.ir.graph import Program
from mstarc.ir.text import parse_program

PROGRAM = """
program speech

input prompt : text
output speech : audio(24000)
option max_tokens : int = 100 in 1 .. 400

node frontend : host {
  impl "m:Frontend"
  op encode(prompt: text) -> (ids: i64[T])
}

node lm : kv_cache {
  impl "m:Decoder"
  weights "lm" bytes 8000000000
  shards tensor
  kv { layers = 32, heads = 8, head_dim = 128 }
  context main
  context other
  op prefill(ids: i64[T]) -> (token: i64) attends causal writes main
  op step(token: i64) -> (token: i64) attends causal writes main
  op look(x: f32[64, 32]) -> (y: f32[64, 32]) attends full reads main
}

node codec : stateless {
  impl "m:Codec"
  weights "codec" bytes 100000000
  op decode(codes: i64[28]) -> (pcm: f32[2048])
}

stream codes : i64 chunk sliding(window = 28, stride = 7) tail drop from speak to vocoder

walk start(%ids: i64[T]) -> (token: i64) {
  %token: i64 = lm.prefill(%ids) on main #start/0
  return %token
}

walk decode(%first: i64) {
  %last: i64 = loop max $max_tokens carry (%token: i64 = %first) while %token != 2 #decode/0 {
    send codes <- %token
    %token.1: i64 = lm.step(%token) on main #decode/1
    yield %token.1
  }
}

walk draw(%x: f32[64, 32]) {
  parallel {
    branch { %a: f32[64, 32] = lm.look(%x) on main #draw/0 }
    branch { %b: f32[64, 32] = lm.look(%x) on other #draw/1 }
  }
}

walk vocode(%window: i64[28]) {
  %pcm: f32[2048] = codec.decode(%window) #vocode/0
  emit speech <- %pcm
}

machine speak {
  register %ids: i64[T]
  register %token: i64
  state begin {
    %ids: i64[T] = frontend.encode(@prompt) #speak.begin/0
    %token: i64 = run start(%ids) #speak.begin/1
    run decode(%token) #speak.begin/2
    next done
  }
}

machine vocoder {
  register %window: i64[28]
  state listen {
    each codes as %window: i64[28] #vocoder.listen/0 {
      run vocode(%window) #vocoder.listen/1
    }
    next done
  }
}
"""


def program() -> Program:
    return parse_program(PROGRAM)


def kind(name: str = "H200") -> DeviceKind:
    found = device_kind(name)
    assert found is not None
    return found


def table(devices: str = "2xH200", requests: int = 64, tokens: int = 8192) -> CostTable:
    cluster = parse_devices(devices)
    assert cluster is not None
    return cost_table(program(), cluster, Limits(requests=requests, tokens=tokens))


def on(lm: tuple[int, ...] = (0,), codec: int = 0, copies: tuple[Copy, ...] = ()) -> Draft:
    return Draft(
        assignments=(
            Assignment(node="frontend", ranks=lm[:1]),
            Assignment(node="lm", ranks=lm, tp=len(lm)),
            Assignment(node="codec", ranks=(codec,)),
        ),
        copies=copies,
    )


def test_one_step_reads_the_weights_once() -> None:
    node = next(node for node in program().nodes if node.name == "lm")
    step = find_op(node, "step")
    row = 2 * 32 * 8 * 128 * 2
    done = work(node, step, kind(), batch=4, context_rows=100)
    assert done.bytes == 8_000_000_000 + 4 * (101 * row + 16)
    taken = seconds(node, step, kind(), batch=4, context_rows=100)
    assert taken == pytest.approx(done.bytes / kind().read_bytes_per_s + kind().launch_s)
    # Eight more requests cost little more than the four; a prompt costs by its rows.
    assert seconds(node, step, kind(), batch=12, context_rows=100) < 1.1 * taken
    prefill = find_op(node, "prefill")
    assert seconds(node, prefill, kind(), rows=8192) > 3 * seconds(node, prefill, kind(), rows=2048)


def test_a_cut_node_is_quicker_by_less_than_the_cut() -> None:
    node = next(node for node in program().nodes if node.name == "lm")
    step = find_op(node, "step")
    whole, halves = (seconds(node, step, kind(), tp=tp) for tp in (1, 2))
    assert whole / 2 < halves < whole
    assert tensor_sizes(node, 16) == (1, 2, 4, 8, 16)
    assert tensor_sizes(node, 4) == (1, 2, 4)
    assert tensor_sizes(replace(node, shards=()), 8) == (1,)


def test_declared_and_measured_costs_go_first() -> None:
    node = next(node for node in program().nodes if node.name == "codec")
    op = replace(find_op(node, "decode"), cost=(("flops", 1e15),))
    assert seconds(node, op, kind()) == pytest.approx(1e15 / kind().flops_per_s(), rel=0.01)
    point = OpPoint(batch=1, rows=1, context=0, seconds=0.5)
    profile = MeasuredProfile(model="m", device="H200", ops={("codec", "decode"): (point,)})
    assert seconds(node, op, kind(), profile=profile) == 0.5 + kind().launch_s
    assert seconds(node, op, kind("A100"), profile=profile) != 0.5


@pytest.mark.parametrize(
    ("name", "op", "rows"),
    [("lm", "prefill", 256), ("lm", "step", 1), ("lm", "look", 64), ("codec", "decode", 28)],
)
def test_rows_of_calls(name: str, op: str, rows: int) -> None:
    node = next(node for node in program().nodes if node.name == name)
    assert rows_of(find_op(node, op), 256) == rows


def test_expected_and_longest_contexts() -> None:
    node = next(node for node in program().nodes if node.name == "lm")
    assert full_rows(program(), node, 8192) == {"main": 8192, "other": 8192}
    expected = expected_rows(program(), 8192)
    assert expected["lm", "main"] == 256 + 100
    assert expected_rows(program(), 200)["lm", "main"] == 200
    assert expected_rows(program(), 8192, options={"max_tokens": 10})["lm", "main"] == 266


def test_together_nothing_is_lost_and_apart_a_hop_is() -> None:
    together, apart = estimate(table(), on()), estimate(table(), on(codec=1))
    assert together.hop_s == 0
    # The codec's stream goes by itself: machines do not wait for it.
    assert apart.hop_s == 0
    assert apart.devices[1].busy_s > 0
    assert apart.throughput > together.throughput
    assert (together.price_per_hour, apart.price_per_hour) == (1.0, 2.0)


def test_a_replica_serves_as_many_again() -> None:
    one = estimate(table(), on())
    two = estimate(table(), on(copies=(Copy(rank=0, copy=1, device=1),)))
    assert two.throughput == pytest.approx(2 * one.throughput)
    assert two.latency_s == one.latency_s
    assert two.in_flight == 2 * one.in_flight


def test_a_cut_makes_one_request_quicker() -> None:
    whole, cut = estimate(table(), on()), estimate(table(), on(lm=(0, 1)))
    assert cut.latency_s < whole.latency_s
    assert [load.weight_bytes for load in cut.devices] == [4_100_000_000, 4_000_000_000]
    assert cut.devices[1].full_bytes == whole.devices[0].full_bytes / 2


def test_each_call_of_shards_is_told_to_the_others() -> None:
    told, cut = table(), on(lm=(0, 1))
    free = [replace(one, shard_call_s=0.0) for one in told.cluster.kinds]
    parts = tuple((free[told.cluster.kinds.index(k)], n) for k, n in told.cluster.parts)
    still = replace(told, cluster=replace(told.cluster, parts=parts))
    # A prompt, and 100 passes of the loop.
    lost = estimate(told, cut).latency_s - estimate(still, cut).latency_s
    assert lost == pytest.approx(101 * kind().shard_call_s)
    assert estimate(told, on()).latency_s == estimate(still, on()).latency_s


def test_a_walk_on_another_rank_takes_its_rows_along() -> None:
    split = Draft(
        assignments=(
            Assignment(node="frontend", ranks=(0,)),
            Assignment(node="lm", ranks=(0,)),
            Assignment(node="lm", ranks=(1,), walks=("decode",)),
            Assignment(node="codec", ranks=(0,)),
        )
    )
    found = estimate(table(), split)
    assert 0 < found.transfer_s < found.hop_s
    link = kind().link_bytes_per_s
    assert found.transfer_s == pytest.approx(356 * 2 * 32 * 8 * 128 * 2 / link)
    assert [load.weight_bytes for load in found.devices] == [8_100_000_000, 8_000_000_000]


def test_what_does_not_fit_is_said() -> None:
    fits = estimate(table("1xRTX4090", tokens=8192), on())
    assert fits.fits
    assert fits.devices[0].full_requests >= 1
    long = estimate(table("1xRTX4090", tokens=200_000), on())
    assert not long.fits
    assert long.devices[0].full_requests == 0


def test_another_host_is_further_away() -> None:
    near, far = (
        estimate(
            table("16xH200"),
            Draft(
                assignments=(
                    Assignment(node="frontend", ranks=(0,)),
                    Assignment(node="lm", ranks=(0,)),
                    Assignment(node="lm", ranks=(other,), walks=("decode",)),
                    Assignment(node="codec", ranks=(0,)),
                )
            ),
        )
        for other in (7, 8)
    )
    assert far.hop_s > 2 * near.hop_s


def test_mixes_of_requests_and_cpus_that_take_them_alone() -> None:
    cluster = parse_devices("1xH200")
    assert cluster is not None

    def with_mix(mix: Mix) -> Estimate:
        limits = Limits(requests=64, tokens=8192)
        return estimate(cost_table(program(), cluster, limits, mix=mix), on())

    short, long = (with_mix(Mix(options={"max_tokens": n})) for n in (10, 400))
    assert short.latency_s < long.latency_s / 10
    assert with_mix(Mix(batch=1)).throughput < with_mix(Mix(batch=32)).throughput / 10
    assert table("1xcpu").batches == (1,)


def test_the_same_question_has_the_same_answer() -> None:
    assert estimate(table(), on(codec=1)) == estimate(table(), on(codec=1))
