"""Parts of a request: a pass a part, an arm a kind, and conditions on where a part stands."""

from random import Random

import pytest

from mstarc import driver
from mstarc.ir.interpret import Part, Request, interpret
from mstarc.ir.text import parse_program
from mstarc.options import CompileOptions
from mstarc.source import SourceFile
from mstarc_runtime.plan_api import RequestRefused
from tests.support.toy_ranks import plan_package, run_plan
from tests.support.toy_specs import deployment_of

SPEC = """mstar 1
model parts
request {
  in  parts : [text | image | audio] at least 1 turns
  out out   : text via front.piece
  opt loud  : bool = false
}
node front : host {
  impl "toy:Front"
  op text(part: text, role: str, opens: flag, last: flag) -> (ids: i64[T])
  op image(part: image, urgent: flag) -> (px: f32[N, 4])
  op audio(part: audio) -> (ids: i64[T])
  op piece(token: i64) -> (piece: text)  stateful
}
node see : stateless { impl "toy:See"  op look(px: f32[N, 4]) -> (emb: f32[N, 8]) }
node lm : kv_cache {
  impl "toy:Lm"
  kv { layers = 1, heads = 1, head_dim = 8 }
  op read(ids: i64[T], last: flag) -> (token: i64 if last)  attends causal  writes
  op view(emb: f32[N, 8], mine: flag) -> (token: i64)  attends full  writes
  op step(token: i64) -> (token: i64)  attends causal  writes
}
walk read(ids: i64[T], last: flag) -> (token: i64 if last) { token = lm.read(ids, last = last) }
walk view(px: f32[N, 4], mine: flag) -> (token: i64) {
  emb   = see.look(px)
  token = lm.view(emb, mine = mine)
  emit out <- token
}
walk say(token: i64) { more = lm.step(token)   emit out <- more }
machine main {
  state read {
    for part in parts {
      let mine = part.role == "user" and not part.closes
      match part {
        text(t)  {
          ids = front.text(t, part.role, part.opens, part.last)
          token = run read(ids, last = part.last)
        }
        image(i) {
          px = front.image(i, loud or part.first)
          when part.first or loud { seen = run view(px, mine = mine)   run say(seen) }
          token = run view(px, mine = part.last)
        }
        audio(a) { ids = front.audio(a)   token = run read(ids, last = part.last) }
      }
    }
    next say
  }
  state say { run say(token)   next done }
}
"""
SPLITS = {
    "together": {"front": 0, "see": 0, "lm": 0},
    "apart": {"front": 2, "see": 0, "lm": 1},
}
KINDS = ("text", "image", "audio")


def files_of(split: str) -> dict[str, str]:
    used = ["front", "see", "lm"]
    text = deployment_of(SPLITS[split], used).replace("model: toy", "model: parts")
    deployment = SourceFile(path=f"{split}.yaml", text=text)
    outcome = driver.compile_spec(
        SourceFile(path="parts.mstar", text=SPEC), CompileOptions(deployments=(deployment,))
    )
    assert outcome.files is not None, [(d.code, d.message) for d in outcome.diagnostics]
    return dict(outcome.files)


@pytest.mark.parametrize("split", SPLITS)
def test_plan_means_what_its_program_means(split: str) -> None:
    files = files_of(split)
    program = parse_program(files["program.mir"])
    chance = Random(1)
    for seed in range(40):
        parts = tuple(
            Part(
                kind=chance.choice(KINDS),
                value=f"part {chance.randrange(99)}",
                role=chance.choice(["user", "assistant"]),
            )
            for _ in range(chance.randint(1, 5))
        )
        options = {"loud": chance.random() < 0.5}
        request = Request(inputs={"parts": parts}, options=options)
        meant = interpret(program, request)
        assert meant.error is None
        emits, _ = run_plan(
            files, split, program, inputs=request.inputs, options=options, order=Random(seed)
        )
        assert emits == dict(meant.emits)


def test_a_request_without_parts_is_refused() -> None:
    refused = pytest.raises(RequestRefused, match="needs at least 1 part")
    with plan_package(files_of("together")) as (messages, machines), refused:
        machines.check(messages.Request(parts=()))


def test_a_host_step_finds_its_part_by_the_number_of_the_pass() -> None:
    rank = files_of("together")["placements/together/rank0.py"]
    assert 'part = job.input("parts")[self.main_part.number(job.slot)]' in rank
    assert "ids = self.front.text(part.value, part.role, part.opens, part.last)" in rank
