"""Toys with several machines: streams between them, how they are cut, values that may be none."""

from tests.support.toy_specs import Toy

TOYS = (
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
