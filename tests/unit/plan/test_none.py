"""A value that may be none reaches an op as one that is there, or as none, by a choice in front."""

import pytest

from mstarc import driver
from mstarc.options import CompileOptions
from mstarc.source import SourceFile

SPEC = """mstar 1
model demo from "org/demo"
request {
  in  prompt : text
  in  photo  : image optional
  out reply  : text via frontend.text
}
node frontend : host {
  impl "demo:Frontend"
  op see(photo: image) -> (e: f32[4])
  op ids(prompt: text) -> (ids: i64[T])
  op text(token: i64) -> (piece: text)  stateful
}
node lm : kv_cache {
  impl "demo:Model"
  kv { layers = 2, heads = 2, head_dim = 8 }
  op read(ids: i64[T], e: f32[4] or none) -> (token: i64)
}
walk read(ids: i64[T], e: f32[4] or none) -> (token: i64) { token = lm.read(ids, e) }
walk say(token: i64) { emit reply <- token }
machine main {
  state begin {
    ids = frontend.ids(prompt)
    BEGIN
  }
  LATER
}
"""

UNSURE = SPEC.replace(
    "BEGIN",
    """when has photo { e = frontend.see(photo) }
    token = run read(ids, e)
    run say(token)
    next done""",
).replace("LATER", "")

SURE = SPEC.replace("BEGIN", "next look if has photo else plain").replace(
    "LATER",
    """state look {
    e = frontend.see(photo)
    token = run read(ids, e)
    run say(token)
    next done
  }
  state plain {
    token = run read(ids, none)
    run say(token)
    next done
  }""",
)


@pytest.mark.parametrize("text", [UNSURE, SURE])
def test_an_argument_that_may_be_none_is_there_or_none(text: str) -> None:
    outcome = driver.compile_spec(SourceFile(path="demo.mstar", text=text), CompileOptions())
    assert outcome.files is not None, outcome.diagnostics
    rank = outcome.files["placements/cpu/rank0.py"]
    assert "self.lm.read(b, ids, b.some(e))" in rank
    assert 'self.lm.read(b, ids, b.none("f32", (4,)))' in rank
