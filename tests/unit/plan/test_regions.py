"""What a step's layout keeps out of capture regions."""

from mstarc import driver
from mstarc.options import CompileOptions
from mstarc.source import SourceFile

SPEC = """mstar 1
model rows
request {
  in  prompt : text
  out reply  : text via words.said
  opt more   : bool = false
}
node words : host {
  impl "rows:Words"
  op encode(prompt: text) -> (tone: f32[N, 8])
  op said(token: i64)     -> (piece: text)  stateful
}
node see : stateless {
  impl "rows:See"
  weights "rows" size 0.001 GB
  op first()                               -> (row: f32[1, 8])
  op last()                                -> (row: f32[1, 8])
  op say(rows: f32[R, 8], row: f32[1, 8])  -> (token: i64)
}
walk begin() -> (rows: f32[1, 8]) { rows = see.first() }
walk behind() -> (row: f32[1, 8]) { row = see.last() }
walk add(rows: f32[R, 8], tone: f32[N, 8]) -> (all: f32[R + N, 8]) { all = concat(rows, tone) }
walk say(rows: f32[R, 8], row: f32[1, 8]) {
  token = see.say(rows, row)
  emit reply <- token
}
machine main {
  state begin {
    rows = run begin()
    row = run behind()
    tone = words.encode(prompt)
    when more { rows = run add(rows, tone) }
    run say(rows, row)
    next done
  }
}
"""


def test_what_a_value_of_several_sizes_keeps_is_in_none() -> None:
    outcome = driver.compile_spec(
        SourceFile(path="rows.mstar", text=SPEC), CompileOptions(placements=("1xH200",))
    )
    assert outcome.files is not None, [found.message for found in outcome.diagnostics]
    report = " ".join(outcome.files["REPORT.md"].split())
    assert "| `begin/0` | `rows` keeps what it gives, and has other sizes elsewhere" in report
    assert "| `behind.0` |" in report
    assert "| `begin.0` |" not in report
