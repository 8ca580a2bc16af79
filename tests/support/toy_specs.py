"""Parts of small specs for tests of plans: a request, nodes, and deployments that split them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mstarc import driver
from mstarc.options import CompileOptions
from mstarc.source import SourceFile


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


HEAD = """mstar 1
model toy
config { stop : int = 2   few : int = 3 }
request {
  in  prompt : text
  out out    : text via tok.text
  out extra  : text via tok.text
  opt length : int = 6 in 0 .. 40
  opt loud   : bool = false
}
"""
NODES = {
    "tok": """
node tok : host {
  impl "toy:Tok"
  op ids(prompt: text) -> (ids: i64[T])
  op join(ids: i64[N]) -> (ids: i64[T])
  op text(token: i64) -> (piece: text)  stateful
}
""",
    "enc": """
node enc : stateless {
  impl "toy:Enc"
  op fold(ids: i64[4]) -> (token: i64)
  op mix(token: i64) -> (next: i64)
}
""",
    "lm": """
node lm : kv_cache {
  impl "toy:Lm"
  kv { layers = 1, heads = 1, head_dim = 8 }
  op prefill(ids: i64[T]) -> (token: i64)  attends causal  writes
  op step(token: i64) -> (next: i64)  attends causal  writes
}
""",
    "small": """
node small : kv_cache {
  impl "toy:Small"
  kv { layers = 1, heads = 1, head_dim = 8 }
  op read(ids: i64[T]) -> (token: i64)  attends causal  writes
  op prime(token: i64) -> (next: i64)  attends causal  writes
  op step(token: i64) -> (next: i64)  attends causal  writes
  op warm(token: i64, heat: f32) -> (next: i64)  attends causal  writes
  op at(token: i64, depth: int) -> (next: i64)  attends causal  writes
}
""",
    "maybe": """
node maybe : kv_cache {
  impl "toy:Maybe"
  kv { layers = 1, heads = 1, head_dim = 8 }
  op one(token: i64) -> (next: i64)  attends causal  writes
  op step(token: i64, h: i64 or none) -> (next: i64)  attends causal  writes
  op read(ids: i64[T], n: i64) -> (token: i64)  attends causal  writes  advance n
  op leap(token: i64) -> (next: i64)  attends causal  writes  advance length + 1
}
""",
    "wide": """
node wide : kv_cache {
  impl "toy:Wide"
  kv { layers = 1, heads = 1, head_dim = 8 }
  contexts main, dream[4], many[length + 1]
  op read(ids: i64[T]) -> (token: i64, rows: i64[T])  attends causal  writes
  op step(token: i64, seed: i64) -> (next: i64)  attends causal  writes
  op glance(token: i64) -> (seen: i64)  attends causal  reads
  op best(tokens: i64[4]) -> (token: i64)  attends causal  writes
}
""",
}


SPLITS: Mapping[str, Mapping[str, int]] = {
    "together": {"tok": 0, "enc": 0, "lm": 0, "small": 0, "maybe": 0, "wide": 0},
    "one_apart": {"tok": 0, "enc": 0, "lm": 0, "small": 1, "maybe": 0, "wide": 1},
    "all_apart": {"tok": 2, "enc": 0, "lm": 1, "small": 3, "maybe": 2, "wide": 1},
}


def compile_toy(body: str, splits: tuple[str, ...] = ("together",)) -> driver.Outcome:
    """What comes of a spec behind `HEAD`, with the nodes that it uses, on each split of them."""
    used = [name for name in NODES if f"{name}." in body]
    text = HEAD + "".join(NODES[name] for name in used) + body
    deployments = tuple(
        SourceFile(path=f"{name}.yaml", text=deployment_of(SPLITS[name], used)) for name in splits
    )
    spec = SourceFile(path="toy.mstar", text=text)
    return driver.compile_spec(spec, CompileOptions(deployments=deployments))


def deployment_of(split: Mapping[str, int], used: list[str]) -> str:
    """A deployment with a group for each node; ranks that nobody uses are left out."""
    numbers = sorted({split[name] for name in used})
    groups = [
        f"  - node_names: [{name}]\n    ranks: [{numbers.index(split[name])}]\n" for name in used
    ]
    return f"model: toy\nnode_groups:\n{''.join(groups)}"
