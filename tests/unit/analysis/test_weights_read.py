"""Which part of a node's weights a call reads, and a row goes through, as its op declares."""

import pytest

from mstarc.analysis.op_costs import find_op, work
from mstarc.deployment import device_kind
from mstarc.ir.graph import Node
from mstarc.ir.text import parse_program

SIZE = 1_000_000_000


def node(cost: str, shards: str = "") -> Node:
    program = parse_program(
        f"""program model

node lm : kv_cache {{
  impl "m:LM"
  weights "org/lm" bytes {SIZE}
  {shards}
  kv {{ layers = 1, heads = 1, head_dim = 4 }}
  context main
  op step(token: i64) -> (next: i64) attends causal writes main {cost}
}}
""",
        "program.mir",
    )
    return program.nodes[0]


H200 = device_kind("H200")


@pytest.mark.parametrize(
    ("cost", "shards", "batch", "read", "passed"),
    [
        ("", "", 1, 1.0, 1.0),
        ("cost { weights = 0.5 }", "", 1, 0.5, 0.5),
        ("cost { weights = 0.5 }", "", 64, 0.5, 0.5),
        ("cost { weights_a_row = 0.5 }", "", 1, 0.5, 0.5),
        ("cost { weights_a_row = 0.5 }", "", 64, 1.0, 0.5),
        ("cost { weights = 0.5, weights_a_row = 0.25 }", "", 1, 0.25, 0.25),
        ("cost { weights = 0.5, weights_a_row = 0.25 }", "", 64, 0.5, 0.25),
        ("", "shards expert", 1, 0.1, 0.1),
        ("cost { weights_a_row = 0.05 }", "shards expert", 1, 0.05, 0.05),
    ],
)
def test_a_call_reads_what_its_op_declares(
    cost: str, shards: str, batch: int, read: float, passed: float
) -> None:
    assert H200 is not None
    made = node(cost, shards)
    done = work(made, find_op(made, "step"), H200, batch=batch)
    assert done.bytes == pytest.approx(read * SIZE, rel=1e-3)
    assert done.flops == pytest.approx(passed * SIZE * batch, rel=1e-3)
