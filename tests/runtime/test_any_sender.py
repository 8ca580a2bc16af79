"""Whatever a loop sends and however its reader cuts it: alike on one rank and on two, with looks
at each pass and at several, for requests that send differently; and nobody waits for ever.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mstarc import driver
from mstarc.options import CompileOptions
from mstarc.source import SourceFile
from mstarc_runtime.loader import load_plan
from mstarc_runtime.request import Asked, prepare
from tests.runtime.rig import Collected
from tests.runtime.test_pulled_stretches import Lm
from tests.support.captured_toys import Tok, captured_ranks, compile_into

SPEC = """mstar 1
model any
request {
  in  prompt : text
  out wrote  : text optional via tok.text
  out said   : text optional via tok.text
  opt n      : int = 5 in 0 .. 40
  opt more   : bool = false
}
need wants wrote or wants said
node tok : host {
  impl "any:Tok"
  op ids(prompt: text) -> (ids: i64[T])
  op text(token: i64) -> (piece: text)  stateful
}
node lm : kv_cache {
  impl "any:Lm"
  kv { layers = 1, heads = 1, head_dim = 8 }
  sample { temperature = 0.0 }
  op prefill(ids: i64[T]) -> (token: i64)  attends causal  writes
  op step(token: i64) -> (next: i64)  attends causal  writes
}
node ear : kv_cache {
  impl "any:Lm"
  kv { layers = 1, heads = 1, head_dim = 8 }
  sample { temperature = 0.0 }
  op prefill(ids: i64[T]) -> (token: i64)  attends causal  writes
  op step(token: i64) -> (next: i64)  attends causal  writes
}
stream words : i64 chunk CHUNK empty skip
walk start(ids: i64[T]) -> (token: i64) { token = lm.prefill(ids) }
walk write(first: i64, speak: flag) {
  t = lm.step(first)
  emit wrote <- t
  BODY
  send words <- t if speak
  when n > 3 and more { emit wrote <- t }
}
HEAR
machine thinks {
  state begin { ids = tok.ids(prompt) token = run start(ids) next go }
  state go { run write(token, speak = wants said) next done }
}
machine talks when wants said {
  state go { each words as w run hear(w) next done }
}
"""
ONE = "walk hear(word: i64) { w = ear.step(word) emit said <- w }"
SEVERAL = "walk hear(word: i64[F]) { w = ear.prefill(word) emit said <- w emit said <- word }"
CHUNKS = [
    "fixed(1)",
    "fixed(3) tail short",
    "sliding(window = 5, stride = 2) tail drop",
    "left_context(chunk = 4, context = 3, ramp = (1, 2)) tail short",
    "until(item in [7, 20], max = 6) tail pad(0)",
]
LAYOUT = """
model: any
devices: {ranks}xcpu
stretch: {stretch}
max_seq_len: 16384
node_groups:
  - node_names: [tok, lm]
    ranks: [0]
  - node_names: [ear]
    ranks: [{last}]
"""
LAYOUTS = [
    LAYOUT.format(ranks=ranks, stretch=stretch, last=ranks - 1)
    for ranks, stretch in ((1, 0), (1, 4), (2, 1), (2, 4))
]
ASKED = [
    ("hello", 5, False, ("wrote", "said")),
    ("hm", 0, True, ("wrote",)),
    ("a lamp", 40, True, ("said",)),
    ("x", 3, True, ("wrote", "said")),
]


def _stepped(named: tuple[str, str]) -> str:
    name, body = named
    return f"{name} = lm.step({name}) {body}"


@st.composite
def bodies(draw: st.DrawFn, value: str = "t", depth: int = 0) -> str:
    """Statements that step, send and emit `value`, and loops of such."""
    send = st.sampled_from(["", " if speak", " if more"]).map(lambda c: f"send words <- {value}{c}")
    plain = [send, st.just(f"{value} = lm.step({value})"), st.just(f"emit wrote <- {value}")]
    if depth == 2:
        return " ".join(draw(st.lists(st.one_of(plain), min_size=1, max_size=3)))
    # Two loops in a body have values of their own.
    made = []
    for number in range(draw(st.integers(1, 3))):
        own = f"{value}{'abc'[number]}"
        inner = st.tuples(st.just(own), bodies(value=own, depth=depth + 1)).map(_stepped)
        head = st.sampled_from(
            [
                f"loop max n carry {own} = {value} while {own} != 7",
                *(f"loop {count} times carry {own} = {value}" for count in (1, 2, 6)),
            ]
        )
        loop = st.tuples(head, inner).map(lambda two: f"{two[0]} {{ {two[1]} }}")
        made.append(draw(st.one_of(*plain, loop)))
    return " ".join(made)


def said(text: str, layout: str) -> list[tuple[list[str], str | None, dict[str, str]]]:
    """The last event, the failure and the texts of each request."""
    with TemporaryDirectory() as folder:
        options = CompileOptions(deployments=(SourceFile(path="cpu.yaml", text=layout),))
        plan = load_plan(
            compile_into(Path(folder), SourceFile(path="any.mstar", text=text), options)
        )
        kinds: dict[str, Any] = {"tok": Tok, "lm": Lm, "ear": Lm}
        ranks = captured_ranks(Path(folder), "any", kinds)
        nothing = [worker.snapshot() for worker in ranks.workers]
        made = []
        for prompt, n, more, wants in ASKED:
            made.append(Collected())
            asked = Asked(inputs={"prompt": prompt}, options={"n": n, "more": more}, wants=wants)
            ranks.conductor.submit(prepare(plan, asked, seed=1), made[-1])
            for _ in range(2):
                ranks.turn()
        idle = 0
        while idle < 60:
            idle = 0 if ranks.turn() else idle + 1
        assert [worker.snapshot() for worker in ranks.workers] == nothing
        why = [one.failure.message if one.failure else None for one in made]
        return [(one.events[-1:], said, one.texts) for one, said in zip(made, why, strict=True)]


@settings(deadline=None, max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(chunk=st.sampled_from(CHUNKS), body=bodies())
def test_a_sender_is_heard_alike_in_every_layout(chunk: str, body: str) -> None:
    text = SPEC.replace("CHUNK", chunk).replace("BODY", body)
    text = text.replace("HEAR", ONE if chunk == "fixed(1)" else SEVERAL)
    if driver.compile_spec(SourceFile(path="any.mstar", text=text), CompileOptions()).files is None:
        return  # such as a chunk that never fires
    wanted = said(text, LAYOUTS[0])
    assert all(event in (["finished"], ["failed"]) for event, _, _ in wanted)
    for layout in LAYOUTS[1:]:
        assert said(text, layout) == wanted
