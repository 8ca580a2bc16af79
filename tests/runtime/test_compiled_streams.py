"""A compiled plan of streams of several values, marks, pulls and forks on real ranks."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mstarc import driver
from mstarc.options import CompileOptions
from mstarc.source import SourceFile
from mstarc_runtime.plan_api import Maybe
from mstarc_runtime.request import PreparedRequest
from tests.runtime.rig import Collected, Rig
from tests.support.toy_ranks import module, plan_package
from tests.support.toy_specs import deployment_of

SPEC = """mstar 1
model streams from "random"
request {
  in  prompt : text
  out out    : text via front.piece
  opt length : int = 3 in 0 .. 9
}
node front : host {
  impl "toy:Front"
  op ids(prompt: text) -> (ids: i64[T])
  op piece(token: i64) -> (piece: text)  stateful
}
node lm : kv_cache {
  impl "toy:Lm"
  kv { layers = 1, heads = 1, head_dim = 8 }
  contexts main, side
  op read(ids: i64[T]) -> (token: i64, h: f32[T, 4])  attends causal  writes
  op glance(token: i64) -> (seen: i64)  attends causal  reads
  op step(token: i64) -> (token: i64, h: f32[4])  attends causal  writes
}
node talker : kv_cache {
  impl "toy:Talker"
  kv { layers = 1, heads = 1, head_dim = 8 }
  op hear(h: f32[T, 4], media: bool[T])  attends causal  writes
  op begin(h: f32[4] or none) -> (code: i64)  attends causal  writes
  op step(code: i64, h: f32[4] or none) -> (code: i64)  attends causal  writes
}
stream states : (h: f32[4], media: bool) marks end chunk fixed(1)
walk read(ids: i64[T]) -> (token: i64) {
  token, h = lm.read(ids)
  send states <- h, true
}
walk write(first: i64) {
  fork lm.side = lm.main
  loop max length carry token = first {
    seen = lm.glance(token) on side
    token, h = lm.step(seen)
    send states <- h, false
  }
}
walk hear(h: f32[T, 4], media: bool[T]) { talker.hear(h, media) }
walk begin() -> (code: i64) { s = pull states or none   code = talker.begin(s.h) }
walk talk(first: i64) {
  loop 4 times carry code = first {
    emit out <- code
    s = pull states or none
    code = talker.step(code, s.h)
  }
}
machine think {
  state read { ids = front.ids(prompt)   token = run read(ids)   mark states.end   next write }
  state write { run write(token)   next done }
}
machine say {
  state listen {
    each states as s chunk until(end, max = 4) until end { run hear(s.h, s.media) }
    next begin
  }
  state begin { code = run begin()   next talk }
  state talk { run talk(code)   next done }
}
"""
SPLITS = {
    "together": {"front": 0, "lm": 0, "talker": 0},
    "apart": {"front": 0, "lm": 0, "talker": 1},
}
NONE = 77


class Front:
    @classmethod
    def build(cls, config: Mapping[str, Any], **_: Any) -> "Front":
        return cls()

    def ids(self, prompt: str) -> Tensor:
        return torch.arange(len(prompt))


class Lm(nn.Module):
    """`h` says where a row stands; what a glance sees is where its own row would."""

    @classmethod
    def build(cls, config: Mapping[str, Any], **_: Any) -> "Lm":
        return cls()

    def read(self, ctx: Any, ids: Tensor) -> tuple[Tensor, Tensor]:
        return ctx.positions[ctx.last_rows], self._states(ctx)

    def glance(self, ctx: Any, token: Tensor) -> Tensor:
        positions: Tensor = ctx.positions
        return positions

    def step(self, ctx: Any, seen: Tensor) -> tuple[Tensor, Tensor]:
        # The fork holds the prompt alone, whatever was written since.
        return seen, self._states(ctx) + 1000 * seen[:, None]

    def _states(self, ctx: Any) -> Tensor:
        positions: Tensor = ctx.positions
        return positions[:, None].expand(-1, 4).to(torch.float32)


class Talker(nn.Module):
    @classmethod
    def build(cls, config: Mapping[str, Any], **_: Any) -> "Talker":
        return cls()

    def hear(self, ctx: Any, h: Tensor, media: Tensor) -> None:
        assert media.all()
        assert h[:, 0].to(torch.int64).tolist() == ctx.positions.tolist()

    def begin(self, ctx: Any, h: Maybe) -> Tensor:
        told = torch.where(h.there, h.value[:, 0].to(torch.int64), NONE)
        return 1_000_000 * ctx.positions + told

    def step(self, ctx: Any, code: Tensor, h: Maybe) -> Tensor:
        return self.begin(ctx, h)


def expected(letters: int, length: int) -> list[int]:
    """The codes of a prompt: where the talker stands, and what it was told there."""
    told = [letters + k + 1000 * letters if k < length else NONE for k in range(4)]
    return [1_000_000 * (letters + k) + told[k] for k in range(4)]


@pytest.mark.parametrize("split", SPLITS)
def test_requests_get_what_their_streams_carry(split: str) -> None:
    text = deployment_of(SPLITS[split], list(SPLITS[split])).replace("model: toy", "model: streams")
    outcome = driver.compile_spec(
        SourceFile(path="streams.mstar", text=SPEC),
        CompileOptions(deployments=(SourceFile(path=f"{split}.yaml", text=text),)),
    )
    assert outcome.files is not None, outcome.diagnostics
    files = {name: t.replace('source=""', 'source="random"') for name, t in outcome.files.items()}
    placed = json.loads(files[f"placements/{split}/placement.json"])
    with plan_package(files) as (messages, machines):
        loaded = [
            module(f"streams_{index}", files[f"placements/{split}/rank{index}.py"])
            for index in range(len(placed["devices"]))
        ]
        rig = Rig(
            [(one.RANK, one.STEPS) for one in loaded],
            machines={n: (m["rank"], m["step"]) for n, m in placed["machines"].items()},
            models={"toy:Front": Front, "toy:Lm": Lm, "toy:Talker": Talker},
            outputs={"out": "i64"},
            admit=lambda given: machines.admit(messages.Request(**given)),
            streams={
                name: (s["producer_ranks"][0], s["consumer_rank"], s["capacity"])
                for name, s in placed["streams"].items()
            },
        )
        waiting: list[tuple[list[int], Collected]] = []
        for letters, length in [(1, 0), (3, 2), (9, 9), (4, 1), (5, 4), (2, 3), (8, 0)]:
            listener = Collected()
            prepared = PreparedRequest(
                name="",
                inputs={"prompt": "x" * letters},
                options={"length": length},
                wants=frozenset({"out"}),
                seed=0,
            )
            rig.conductor.submit(prepared, listener)
            waiting.append((expected(letters, length), listener))
        rig.run()
        for meant, listener in waiting:
            assert listener.failure is None, listener.failure
            assert listener.values["out"] == meant
        rig.check_clean()
