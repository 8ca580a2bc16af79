"""Toys with loops: what is carried and collected, how a loop ends, which pass a statement is in."""

from tests.support.toy_specs import Toy

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
)
