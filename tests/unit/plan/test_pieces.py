"""Which prompts are read in pieces, which share pages, and what the report says of the others."""

import pytest

from mstarc import driver
from mstarc.options import CompileOptions
from mstarc.source import SourceFile

SPEC = """mstar 1

model talk

request {{
  in  prompt : text
  out reply  : text via words.said
  opt warmth : float = 0.5 in 0.0 .. 1.0
}}

node words : host {{
  impl "talk:Words"
  op encode(prompt: text) -> (ids: i64[T], at: i64[T, 3], tone: f32[T, 4])
  op note(ids: i64[T], at: i64[T, 3], tone: f32[T, 4]) -> (count: i64)
  op said(token: i64) -> (piece: text)  stateful
}}

node ears : stateless {{
  impl "talk:Ears"
  weights "talk" size 0.001 GB
  op hear(tone: f32[T, 4]) -> (emb: bf16[T, 8])
}}

node lm : kv_cache {{
  impl "talk:Model"
  weights "talk" size 0.001 GB
  kv {{ layers = 1, heads = 1, head_dim = 16 }}
  contexts main, side
  op fill(token: i64)  attends causal  writes side
  op look(h: bf16[T, 8])  attends causal  reads main
  op read({parameters}) -> ({results})  {effects}
  op step(token: i64) -> (next: i64)  attends causal  writes main
}}

walk start(ids: i64[T], at: i64[T, 3], tone: f32[T, 4]) -> (token: i64) {{
  count = words.note(ids, at, tone)
  {before}
  {taken} = lm.read({arguments})
  lm.fill(count)
  {behind}
}}

walk answer(token: i64) {{
  emit reply <- token
}}

machine main {{
  state begin {{
    ids, at, tone = words.encode(prompt)
    token = run start(ids, at, tone)
    run answer(token)
    next done
  }}
}}
"""
USUAL = {
    "parameters": "ids: i64[T]",
    "results": "token: i64",
    "effects": "attends causal  writes main",
    "before": "",
    "behind": "",
    "taken": "token",
    "arguments": "ids",
}


def row_of(**given: str) -> list[str]:
    """The cells of the call in the report's table of prompts."""
    text = SPEC.format(**{**USUAL, **given})
    outcome = driver.compile_spec(
        SourceFile(path="talk.mstar", text=text), CompileOptions(placements=("1xH200",))
    )
    assert outcome.files is not None, [found.message for found in outcome.diagnostics]
    report = outcome.files["REPORT.md"]
    assert "### Prompts" in report
    lines = report.partition("### Prompts")[2].splitlines()
    (row,) = [line for line in lines if line.startswith("| `start/")]
    return [cell.strip() for cell in row.strip("| ").split("|")]


@pytest.mark.parametrize(
    ("given", "read", "shared"),
    [
        ({}, "in pieces", "yes: rows follow from `ids`"),
        (
            {"parameters": "ids: i64[T], at: i64[T, 3]", "arguments": "ids, at"},
            "in pieces",
            "yes: rows follow from `ids` and `at`",
        ),
        (
            {"parameters": "tone: f32[T, 4]", "arguments": "tone"},
            "in pieces",
            "no: `tone` are no tokens but `f32`",
        ),
        (
            {
                "parameters": "emb: bf16[T, 8]",
                "before": "emb = ears.hear(tone)",
                "arguments": "emb",
            },
            "in pieces",
            "no: `emb` are no tokens but `bf16`",
        ),
        (
            {"parameters": "ids: i64[T], warmth: f32", "arguments": "ids, warmth"},
            "in pieces",
            "no: `warmth` is each request's own",
        ),
        (
            {
                "parameters": "ids: i64[T], span: i64",
                "arguments": "ids, count",
                "effects": "attends causal  writes main  advance span",
            },
            "in pieces",
            "no: positions do not move by its rows",
        ),
        (
            {
                "results": "token: i64, h: bf16[T, 8]",
                "taken": "token, h",
                "behind": "lm.look(h)",
            },
            "in pieces",
            "no: `h` has a row for each of its rows",
        ),
        (
            {"effects": "attends full  writes main"},
            "at once: rows see later ones: `attends full`",
            "",
        ),
        (
            {"effects": "attends causal  writes main  reads side"},
            "at once: it works on several contexts",
            "",
        ),
    ],
)
def test_the_report_says_how_a_prompt_is_read(
    given: dict[str, str], read: str, shared: str
) -> None:
    cells = row_of(**given)
    assert cells[2:] == [read, shared] if shared else cells[2] == read
