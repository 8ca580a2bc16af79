"""Toys of what requests say: choices of states and blocks, slices, positions, contexts."""

from tests.support.toy_specs import Toy

TOYS = (
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
)
