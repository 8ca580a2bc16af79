"""A plan means what its program means: generated ranks over toys give what `interpret` gives."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from mstarc import driver
from mstarc.ir.interpret import Request, interpret
from mstarc.ir.interpret.toys import landmarks
from mstarc.ir.text import parse_program
from mstarc.options import CompileOptions
from mstarc.source import SourceFile
from tests.support.golden import ROOT
from tests.support.toy_ranks import run_plan
from tests.support.toy_specs import SPLITS, compile_toy


@dataclass(frozen=True, slots=True, kw_only=True)
class Toy:
    """A spec behind the toys' head, and the options of requests.

    `mixed`: several machines emit to one output, and nothing says in which order.
    """

    name: str
    text: str
    options: tuple[dict[str, Any], ...] = field(
        default=({}, {"length": 0}, {"length": 1}, {"length": 25})
    )
    mixed: bool = False


TOYS = (
    Toy(
        name="collect and go on",
        text="""
walk write(ids: i64[T]) -> (all: i64[N]) {
  first = lm.prefill(ids)
  loop max length carry token = first collect all = word while token != stop {
    word = token
    emit out <- token
    token = lm.step(token)
  }
}
walk again(ids: i64[T]) { token = lm.prefill(ids)   emit extra <- token }
machine go {
  state begin { ids = tok.ids(prompt)   all = run write(ids)   next more }
  state more { ids = tok.join(all)   run again(ids)   next done }
}
""",
    ),
    Toy(
        name="collect at the pass's end",
        text="""
walk write(ids: i64[T]) -> (all: i64[N]) {
  first = lm.prefill(ids)
  loop max length carry token = first collect all = token while token != stop {
    emit out <- token
    token = lm.step(token)
  }
}
walk again(ids: i64[T]) { token = lm.prefill(ids)   emit extra <- token }
machine go {
  state begin { ids = tok.ids(prompt)   all = run write(ids)   next more }
  state more { ids = tok.join(all)   run again(ids)   next done }
}
""",
    ),
    Toy(
        name="until",
        text="""
walk write(ids: i64[T]) {
  first = lm.prefill(ids)
  loop max length carry token = first {
    emit out <- token
    token = lm.step(token)
  } until token == stop
  emit extra <- token
}
machine go { state begin { ids = tok.ids(prompt)   run write(ids)   next done } }
""",
    ),
    Toy(
        name="as often as the request says",
        text="""
walk write(ids: i64[T]) {
  first = lm.prefill(ids)
  loop length times carry token = first {
    emit out <- token
    token = lm.step(token)
  }
  emit extra <- token
}
machine go { state begin { ids = tok.ids(prompt)   run write(ids)   next done } }
""",
    ),
    Toy(
        name="a loop in a loop",
        text="""
walk write(ids: i64[T]) {
  first = lm.prefill(ids)
  loop max length carry token = first while token != stop {
    seed = small.prime(token)
    loop few times as depth carry c = seed collect rest = c { c = small.at(c, depth) }
    frame = concat(seed, rest)
    code = enc.fold(frame)
    emit out <- code
    emit extra <- seed
    token = lm.step(code)
  }
}
machine go { state begin { ids = tok.ids(prompt)   run write(ids)   next done } }
""",
    ),
    Toy(
        name="a dynamic loop in a loop",
        text="""
walk write(ids: i64[T]) {
  first = lm.prefill(ids)
  loop max few carry token = first while token != 1 {
    loop max length carry c = token while c != stop {
      emit extra <- c
      c = small.step(c)
    }
    emit out <- c
    token = lm.step(c)
  }
}
machine go { state begin { ids = tok.ids(prompt)   run write(ids)   next done } }
""",
    ),
    Toy(
        name="two values that change places",
        text="""
walk write(ids: i64[T]) {
  a0 = lm.prefill(ids)
  b0 = enc.mix(a0)
  loop max length carry a = a0, b = b0 while a != stop {
    emit out <- b
    c = lm.step(a)
    a = b
    b = c
  }
  emit extra <- a
  emit extra <- b
}
machine go { state begin { ids = tok.ids(prompt)   run write(ids)   next done } }
""",
    ),
    Toy(
        name="states by option",
        text="""
walk write(first: i64) {
  loop max length carry token = first while token != stop {
    emit out <- token
    token = lm.step(token)
  }
}
walk start(ids: i64[T]) -> (token: i64) { token = lm.prefill(ids) }
walk shout(token: i64) { t = enc.mix(token)   emit extra <- t }
machine go {
  state begin { ids = tok.ids(prompt)   token = run start(ids)   next loudly if loud else plain }
  state loudly { run shout(token)   next plain }
  state plain { run shout(token)   run write(token)   next done }
}
""",
        options=({}, {"loud": True}, {"loud": True, "length": 0}, {"length": 25}),
    ),
    Toy(
        name="effects by option",
        text="""
stream codes : i64 chunk fixed(1) tail drop empty skip
walk write(ids: i64[T]) {
  first = lm.prefill(ids)
  loop max length carry token = first while token != stop {
    emit out <- token if loud
    send codes <- token if not loud
    token = lm.step(token)
  }
  emit out <- token
}
walk hear(code: i64) { t = enc.mix(code)   emit extra <- t }
machine go { state begin { ids = tok.ids(prompt)   run write(ids)   next done } }
machine listen { state listen { each codes as code run hear(code)   next done } }
""",
        options=({}, {"loud": True}, {"loud": True, "length": 1}, {"length": 25}),
    ),
    Toy(
        name="a block by option",
        text="""
walk write(ids: i64[T]) {
  first = lm.prefill(ids)
  loop max length carry token = first while token != stop {
    when loud {
      t = small.prime(token)
      emit extra <- t
    } else {
      u = enc.mix(token)
      emit extra <- u
    }
    token = lm.step(token)
    emit out <- token
  }
  emit out <- token
  emit extra <- token
}
machine go { state begin { ids = tok.ids(prompt)   run write(ids)   next done } }
""",
        options=({}, {"loud": True}, {"loud": True, "length": 0}, {"length": 25}),
    ),
    Toy(
        name="a machine that may not run",
        text="""
stream codes : i64 chunk left_context(chunk = 2, context = 2) tail short empty skip
walk write(ids: i64[T]) {
  first = lm.prefill(ids)
  loop max length carry token = first while token != stop {
    emit out <- token
    send codes <- token
    token = lm.step(token)
  }
  emit extra <- token
}
walk hear(codes: i64[N]) { t = small.read(codes)   emit extra <- t }
machine go { state begin { ids = tok.ids(prompt)   run write(ids)   next done } }
machine listen when loud { state listen { each codes as some run hear(some)   next done } }
""",
        options=({}, {"loud": True}, {"loud": True, "length": 25}),
        mixed=True,
    ),
    Toy(
        name="a choice on each chunk",
        text="""
stream codes : i64 chunk fixed(1) tail drop empty skip
walk write(ids: i64[T]) {
  first = lm.prefill(ids)
  loop max length carry token = first while token != stop {
    send codes <- token
    token = lm.step(token)
  }
}
walk hear(code: i64) {
  when loud { t = enc.mix(code)   emit extra <- t }
  u = small.prime(code)
  emit out <- u
  emit extra <- code
}
machine go { state begin { ids = tok.ids(prompt)   run write(ids)   next done } }
machine listen { state listen { each codes as code run hear(code)   next done } }
""",
        options=({}, {"loud": True}, {"loud": True, "length": 25}),
    ),
    Toy(
        name="the number of the pass",
        text="""
walk write(ids: i64[T]) {
  first = lm.prefill(ids)
  loop length times as i carry token = first {
    t = small.at(token, i)
    emit out <- t if i % 2 == 0 or loud
    when w[i] > 0.5 { u = enc.mix(t)   emit extra <- u } else { small.warm(t, w[i + 1]) }
    token = lm.step(t)
  }
  emit out <- token
  emit extra <- token
}
table w[i in length + 1] = 1.0 - i / 10
machine go { state begin { ids = tok.ids(prompt)   run write(ids)   next done } }
""",
        options=({}, {"length": 0}, {"length": 25}, {"loud": True}),
    ),
    Toy(
        name="a stream between machines",
        text="""
stream codes : i64 chunk sliding(window = 4, stride = 2) tail drop empty skip
walk write(ids: i64[T]) {
  first = lm.prefill(ids)
  loop max length carry token = first while token != stop {
    send codes <- token
    token = lm.step(token)
  }
}
walk sound(window: i64[4]) {
  t = enc.fold(window)
  emit out <- t
  u = enc.mix(t)
  emit extra <- u
}
machine go { state begin { ids = tok.ids(prompt)   run write(ids)   next done } }
machine hear { state listen { each codes as window run sound(window)   next done } }
""",
    ),
    Toy(
        name="an item that is sure to come",
        text="""
stream words : i64 chunk fixed(2) tail short
walk write(ids: i64[T]) {
  first = lm.prefill(ids)
  send words <- first
  loop max length carry token = first while token != stop {
    token = lm.step(token)
    send words <- token
  }
}
walk head(word: i64) { t = enc.mix(word)   emit out <- t }
walk hear(words: i64[N]) { token = small.read(words)   emit extra <- token }
machine go { state begin { ids = tok.ids(prompt)   run write(ids)   next done } }
machine listen {
  state begin {
    word = pull words
    run head(word)
    each words as some { run hear(some) }
    next done
  }
}
""",
    ),
    Toy(
        name="slices that the request and the pass say",
        text="""
walk answer(ids: i64[T]) {
  one, _ = wide.read(ids)
  few_rows = repeat(one, length)
  many = repeat(concat(few_rows, stack(one, 7)), 2)
  zs = concat(repeat(one, 3), stack(one, one, 4))
  loop 3 times as i carry x = zs[0] {
    seed = wide.step(x, i)
    pair = zs[i : i + 2]
    y = wide.step(pair[1], seed)
    x = wide.step(zs[few - 1 - i], y)
    emit extra <- x
  }
  last = small.read(zs[0 : length + 2])
  again = small.read(many[1])
  emit out <- last
  emit out <- again
  z = wide.step(zs[loud_at], one)
  emit extra <- z
}
let loud_at = length % 5
machine go { state begin { ids = tok.ids(prompt)   run answer(ids)   next done } }
""",
        options=({}, {"length": 1}, {"length": 2}, {"length": 4}),
    ),
    Toy(
        name="chunks of which one is the last",
        text="""
stream words : i64 chunk fixed(3) tail short
walk write(ids: i64[T]) {
  first = lm.prefill(ids)
  loop max length carry token = first while token != stop {
    send words <- token
    token = lm.step(token)
  }
}
walk hear(words: i64[N], last: flag) {
  token = small.read(words)
  when last { emit out <- token } else { t = enc.mix(token)   emit extra <- t }
  emit out <- token if not last
  loop max few carry x = token while x != stop { emit extra <- x   x = small.step(x) }
}
machine go { state begin { ids = tok.ids(prompt)   run write(ids)   next done } }
machine listen {
  state begin {
    each words as some, last { run hear(some, last = last) }
    next done
  }
}
""",
    ),
    Toy(
        name="tests over the number of the pass",
        text="""
table tick[i in length] = i * 3
table part[i in length] = i / 2
walk write(ids: i64[T]) {
  first = lm.prefill(ids)
  loop max length as i carry token = first while i + 1 < few or token != stop {
    emit out <- token if i > 1
    word = token
    emit extra <- word
    token = lm.step(token)
  }
  loop max length as i carry token = first while tick[i] < 9 and token != stop {
    emit out <- token
    token = lm.step(token)
  }
  loop max length as i carry token = first {
    token = lm.step(token)
    emit out <- token
  } until i == few or part[i] > 0.9
}
walk more(ids: i64[T]) { token = lm.prefill(ids)   emit out <- token   emit extra <- token }
machine go { state begin { ids = tok.ids(prompt)   run write(ids)   run more(ids)   next done } }
""",
    ),
    Toy(
        name="chunks that end at items of several values",
        text="""
stream words : (token: i64, by: i64) chunk fixed(1)
walk write(ids: i64[T]) {
  first = lm.prefill(ids)
  send words <- ids, 5
  loop max length carry token = first while token != stop {
    send words <- token, 3
    token = lm.step(token)
  }
  _, last = wide.read(ids)
  send words <- last, 7
}
walk hear(words: i64[N], by: i64[N]) {
  a = small.read(words)
  b = small.read(by)
  emit out <- a
  emit extra <- b
}
walk begin() { one = pull words   emit out <- one.token   emit extra <- one.by }
machine go { state begin { ids = tok.ids(prompt)   run write(ids)   next done } }
machine listen {
  state begin {
    run begin()
    each words as some chunk until(item.token == stop or item.by == 7, max = 4) {
      run hear(some.token, some.by)
    }
    next done
  }
}
""",
    ),
    Toy(
        name="a table of whole numbers, as both kinds of number",
        text="""
table t[i in few] = i * 2
walk write(ids: i64[T]) {
  first = lm.prefill(ids)
  loop few times as i carry token = first {
    token = small.warm(token, t[i])
    token = wide.step(token, t[i])
    token = wide.step(token, i * length)
  }
  emit out <- token
  emit extra <- token
}
machine go { state begin { ids = tok.ids(prompt)   run write(ids)   next done } }
""",
    ),
    Toy(
        name="conditions over two loops",
        text="""
walk write(ids: i64[T]) {
  first = lm.prefill(ids)
  emit out <- first
  emit extra <- first
  loop length times as i carry token = first {
    loop few times as j carry x = token {
      x = lm.step(x)
      emit out <- x if i + j > 3
      when i > j and not loud { y = small.step(x)   emit extra <- y }
    }
    token = lm.step(x)
  }
  loop few times as j carry x = first { x = small.step(x)   emit out <- x if j > 1 }
}
machine go { state begin { ids = tok.ids(prompt)   run write(ids)   next done } }
""",
    ),
    Toy(
        name="values that may be none, in later steps",
        text="""
stream words : i64 chunk fixed(1)
walk write(ids: i64[T]) {
  first = lm.prefill(ids)
  loop max length carry token = first while token != stop {
    send words <- token
    token = lm.step(token)
  }
}
walk hear(token0: i64) {
  loop 4 times carry token = token0 {
    s = pull words or none
    a = maybe.one(token)
    x = small.read(stack(a, a))
    t = enc.mix(x)
    token = maybe.step(t, s)
    emit out <- token
    emit extra <- token
  }
}
machine go { state begin { ids = tok.ids(prompt)   run write(ids)   next done } }
machine listen { state begin { run hear(7)   next done } }
""",
    ),
    Toy(
        name="positions that move as the request says",
        text="""
let further = length + 2
walk write(ids: i64[T]) {
  a = maybe.read(ids, further)
  b = maybe.read(ids, 2 * length + 1)
  loop few times as i carry x = b {
    x = maybe.leap(x)
    y = maybe.read(ids, i + 1)
    emit extra <- y
  }
  emit out <- a
  emit extra <- x
}
machine go { state begin { ids = tok.ids(prompt)   run write(ids)   next done } }
""",
    ),
    Toy(
        name="an array of contexts",
        text="""
walk answer(ids: i64[T]) {
  one, _ = wide.read(ids)
  fork wide.dream = wide.main
  alone = wide.step(one, 7) on dream[2]
  fork wide.dream[0] = wide.dream[few]
  loop length times as i carry tokens = repeat(alone, 4) {
    tokens = wide.step(tokens, i) on dream
    last = wide.step(alone, i) on dream[i % 4]
    emit extra <- last
  }
  release wide.dream[1]
  seen = wide.glance(tokens) on dream
  release wide.dream
  again = wide.step(one, one) on dream
  first = wide.best(concat(seen[0:2], again[2:4]))
  emit out <- first
}
machine go { state begin { ids = tok.ids(prompt)   run answer(ids)   next done } }
""",
    ),
    Toy(
        name="as many contexts as the request says",
        text="""
walk answer(ids: i64[T]) {
  first, rows = wide.read(ids) on many
  fork wide.dream[1] = wide.many[length]
  loop 3 times as i carry tokens = first { tokens = wide.step(tokens, i) on many }
  again, _ = wide.read(rows) on many
  last = wide.step(again[0], 1) on dream[1]
  emit out <- last
  emit extra <- last
  release wide.many
}
machine go { state begin { ids = tok.ids(prompt)   run answer(ids)   next done } }
""",
    ),
    Toy(
        name="clauses, read by the host",
        text="""
stream words : i64 chunk until(item in [5, 7], max = 4) tail short empty skip
walk write(ids: i64[T]) {
  first = lm.prefill(ids)
  loop max length carry token = first while token != stop {
    emit out <- token
    send words <- token
    token = lm.step(token)
  }
}
machine go { state begin { ids = tok.ids(prompt)   run write(ids)   next done } }
machine hear {
  state listen {
    each words as clause { ids = tok.join(clause)   run read(ids) }
    next done
  }
}
walk read(ids: i64[T]) { t = small.read(ids)   emit extra <- t }
""",
    ),
)


@pytest.mark.parametrize("toy", TOYS, ids=lambda toy: toy.name)
def test_plan_means_what_its_program_means(toy: Toy) -> None:
    outcome = compile_toy(toy.text, tuple(SPLITS))
    assert outcome.files is not None, [(d.code, d.message) for d in outcome.diagnostics]
    for name in SPLITS:
        check(outcome.files, name, toy.options, mixed=toy.mixed)


def test_voice_chat_means_what_its_program_means() -> None:
    path = "specs/voice_chat.mstar"
    spec = SourceFile(path=path, text=(ROOT / path).read_text(encoding="utf-8"))
    placements = ("cpu", "2xcpu", "3xcpu")
    outcome = driver.compile_spec(spec, CompileOptions(placements=placements))
    assert outcome.files is not None
    for placement in placements:
        check(outcome.files, placement, ({}, {"max_tokens": 1}), input_name="question")


def check(
    files: Mapping[str, str],
    placement: str,
    options: tuple[dict[str, Any], ...],
    *,
    input_name: str = "prompt",
    mixed: bool = False,
) -> None:
    """Compare what requests get, with machines taking turns in several orders."""
    program = parse_program(files["program.mir"])
    for seed in range(6):
        for chosen in options:
            inputs = {input_name: f"question {seed}"}
            request = Request(inputs=inputs, options=chosen, tokens=landmarks(program))
            meant = interpret(program, request)
            assert meant.error is None
            emits, streams = run_plan(
                files, placement, program, inputs=inputs, options=chosen, order=Random(seed)
            )
            assert in_order(emits, mixed) == in_order(meant.emits, mixed)
            assert streams == {name: h.items for name, h in meant.streams.items()}


def in_order(emits: Mapping[str, tuple[Any, ...]], mixed: bool) -> dict[str, list[Any]]:
    """Values by output, sorted where their order means nothing."""
    return {name: sorted(values) if mixed else list(values) for name, values in emits.items()}
