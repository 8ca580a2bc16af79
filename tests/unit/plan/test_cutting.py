"""Where steps are cut, what is kept between them, what travels, and what has no code yet."""

import re

from mstarc.codegen.emit import render
from mstarc.deployment import parse_devices
from mstarc.diagnostics import DiagnosticSink
from mstarc.ir.text import parse_program
from mstarc.passes import PassContext, run_pipeline
from mstarc.plan import build_plan
from mstarc.source import SourceFile
from tests.support.toy_ranks import module, plan_package
from tests.support.toy_specs import HEAD, compile_toy

WRITE = """
walk write(ids: i64[T]) {
  first = lm.prefill(ids)
  loop max length carry token = first while token != stop {
    emit out <- token
    emit extra <- token
    token = lm.step(token)
  }
}
machine go { state begin { ids = tok.ids(prompt)   run write(ids)   next done } }
"""

PROGRAM = """\
program toy

input picture : image
output out : text via tok.text

node tok : host {
  impl "toy:Tok"
  op look(picture: image) -> (token: i64)
  op text(token: i64) -> (piece: text) stateful
}

walk show(%token: i64) {
  emit out <- %token
}

machine go {
  register %token: i64
  state begin {
    %token: i64 = tok.look(@picture) #go.begin/0
    run show(%token) #go.begin/1
    next done
  }
}
"""


def rank_of(body: str, split: str = "together", rank: int = 0) -> str:
    """The text of a rank's module."""
    outcome = compile_toy(body, (split,))
    assert outcome.files is not None, [(d.code, d.message) for d in outcome.diagnostics]
    return outcome.files[f"placements/{split}/rank{rank}.py"]


def steps_of(body: str, split: str = "together", rank: int = 0) -> list[str]:
    """The names of a rank's steps; a hop or an end is what it is."""
    outcome = compile_toy(body, (split,))
    assert outcome.files is not None
    with plan_package(outcome.files):
        loaded = module("cut", outcome.files[f"placements/{split}/rank{rank}.py"])
    return [getattr(step, "name", type(step).__name__) for step in loaded.STEPS]


def test_a_host_op_a_prefill_and_a_pass_are_steps() -> None:
    assert steps_of(WRITE) == ["go.begin.ids", "go.begin.write", "go.begin.write.pass", "DoneStep"]


def test_calls_that_follow_one_another_on_a_rank_share_a_step() -> None:
    body = WRITE.replace("token = lm.step(token)\n", "t = enc.mix(token)\n    token = lm.step(t)\n")
    text = rank_of(body)
    assert 'nodes=("enc", "lm"),' in text
    assert steps_of(body) == steps_of(WRITE)


def test_calls_on_two_ranks_are_two_steps_with_a_hop_between() -> None:
    body = WRITE.replace("token = lm.step(token)\n", "t = enc.mix(token)\n    token = lm.step(t)\n")
    assert steps_of(body, "all_apart", 0) == ["go.begin.write.pass", "HopStep"]
    names = ["go.begin.write.prefill", "HopStep", "go.begin.write.step"]
    assert steps_of(body, "all_apart", 1) == [*names, "DoneStep"]


def test_a_loop_keeps_its_value_in_one_register() -> None:
    text = rank_of(WRITE)
    assert re.findall(r"b\.register\(.*", text) == ['b.register("go_token", "i64", ())']
    assert text.count("self.go_token.put(b, token)") == 2


def test_what_a_hop_carries_is_alive_there() -> None:
    text = rank_of(WRITE, "all_apart", 1)
    assert 'values=("go_ids",)' in text


def test_a_value_of_no_fixed_size_is_kept_as_an_object() -> None:
    assert 'self.go_ids = b.values("go_ids")' in rank_of(WRITE)


def test_a_bounded_loop_of_device_calls_is_repeated_in_its_step() -> None:
    body = WRITE.replace(
        "token = lm.step(token)\n",
        "loop few times carry c = token { c = small.step(c) }\n    token = lm.step(c)\n",
    )
    text = rank_of(body)
    assert "        for _ in range(FEW):  # loop few times\n" in text
    assert "self.small.grow(b, 3)" in text
    assert steps_of(body) == steps_of(WRITE)


def test_a_bounded_loop_over_two_ranks_is_cut() -> None:
    body = WRITE.replace(
        "token = lm.step(token)\n",
        "loop few times carry c = token { c = small.step(c)   c = enc.mix(c) }\n"
        "    token = lm.step(c)\n",
    )
    names = steps_of(body, "one_apart", 1) + steps_of(body, "one_apart", 0)
    assert sum(".pass" in name for name in names) == 2


def test_a_condition_of_the_request_is_computed_at_admission() -> None:
    outcome = compile_toy(WRITE.replace("emit out <- token", "emit out <- token if loud"))
    assert outcome.diagnostics, "an output that is not always emitted is refused"
    body = WRITE.replace("emit out <- token", "emit out <- token\n    emit out <- token if loud")
    found = compile_toy(body).files
    assert found is not None
    rank = found["placements/together/rank0.py"]
    assert 'where=more & b.option("loud")' in rank
    found = compile_toy(body.replace("if loud", "if not loud")).files
    assert found is not None
    assert '"go.begin.emit_out": not request.loud,' in found["machines.py"]
    rank = found["placements/together/rank0.py"]
    assert 'where=more & b.option("go.begin.emit_out")' in rank


def test_a_sampler_setting_may_be_computed() -> None:
    body = """
node warm : kv_cache {
  impl "toy:Warm"
  kv { layers = 1, heads = 1, head_dim = 8 }
  sample { temperature = length * 0.1 + 0.2, top_p = 0.9 }
  op read(ids: i64[T]) -> (token: i64)  attends causal  writes
}
walk write(ids: i64[T]) { token = warm.read(ids)   emit out <- token   emit extra <- token }
machine go { state begin { ids = tok.ids(prompt)   run write(ids)   next done } }
"""
    outcome = compile_toy(body, ())
    assert outcome.files is not None, outcome.diagnostics
    assert '"warm.default.temperature": request.length * 0.1 + 0.2,' in outcome.files["machines.py"]
    rank = outcome.files["placements/cpu/rank0.py"]
    assert 'Sampler(temperature="warm.default.temperature", top_p=0.9)' in rank


def test_a_picture_goes_to_its_host_op_as_it_came() -> None:
    program = parse_program(PROGRAM)
    sink = DiagnosticSink()
    source = SourceFile(path="toy.mir", text=PROGRAM)
    context = PassContext(sink=sink, devices=parse_devices("cpu"))
    placed = run_pipeline(program, context)
    assert placed is not None
    plan = build_plan([placed], source, sink, version="0")
    assert plan is not None
    files = render(plan, mir=PROGRAM)
    assert "    picture: Media\n" in files["messages.py"]
    assert 'self.tok.look(job.input("picture"))' in files["placements/cpu/rank0.py"]


def test_contexts_change_in_front_of_a_step() -> None:
    body = WRITE.replace("  first = lm", "  release lm.main\n  first = lm")
    assert (
        '        self.lm.clear(b, "main")\n        self.lm.grow(b, self.go_ids.lengths(b))\n'
    ) in rank_of(body)
    assert steps_of(body) == steps_of(WRITE)


def test_a_machine_may_send_from_two_ranks() -> None:
    body = """
stream words : i64 chunk fixed(1) tail drop empty skip
walk write(ids: i64[T]) {
  first = lm.prefill(ids)
  send words <- first
  second = small.prime(first)
  send words <- second
}
walk hear(word: i64) { t = enc.mix(word)   emit out <- t   emit extra <- t }
machine go { state begin { ids = tok.ids(prompt)   run write(ids)   next done } }
machine listen { state begin { each words as word run hear(word)   next done } }
"""
    assert compile_toy(body).files is not None
    assert compile_toy(body, ("one_apart",)).files is not None


def test_a_collector_needs_a_largest_bound() -> None:
    body = """
walk write(ids: i64[T]) -> (all: i64[N]) {
  first = lm.prefill(ids)
  loop max length carry token = first collect all = token while token != stop {
    emit out <- token
    token = lm.step(token)
  }
}
walk again(ids: i64[T]) { t = lm.prefill(ids)   emit extra <- t }
machine go {
  state begin { ids = tok.ids(prompt)   all = run write(ids)   next more }
  state more { ids = tok.join(all)   run again(ids)   next done }
}
"""
    assert 'b.collector("go_all", "i64", (), capacity=40)' in rank_of(body)
    assert " in 0 .. 40" in HEAD
