"""What the passes decide about a program: where it runs, what travels, what is captured, what fits.

placement "2xcpu" by "automatic" requests 8 tokens 2048 {
  device 0 "cpu" bytes 34359738368
  device 1 "cpu" bytes 34359738368
  assign lm ranks [0, 1] tp 2
}
hop speak #start/0 -> #decode/0 rank 0 -> 1 values (%"decode/first") bytes 8
"""

from collections.abc import Sequence
from typing import Literal

from mstarc.records import dataclass

# Rows of prompts that a step reads where nobody says otherwise: they keep an accelerator busy.
PREFILL_TOKENS = 2048

# Passes at which the host looks once: half of what is under way when a request arrives.
STRETCH = 4

MemoryKind = Literal[
    "weights",
    "kept",
    "kv_pages",
    "cross_rows",
    "rings",
    "registers",
    "graph_pool",
    "staging",
    "activations",
    "reserve",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device, its kind in the catalogue and its memory. `rank` is its number, and its rank's."""

    rank: int
    kind: str
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One group of ranks holds `node`, cut into tp x sp shards; `ranks` begin with the leader.

    A node may have several. `walks` and `contexts` say which calls run here; none means all that
    no other assignment of the node names. A call in a state is in the walk `machine.state`.
    """

    node: str
    ranks: tuple[int, ...]
    walks: tuple[str, ...] = ()
    contexts: tuple[str, ...] = ()
    tp: int = 1
    sp: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A replica: a further process that does what `rank` does. The rank itself is copy 0."""

    rank: int
    copy: int
    device: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Set by place. `source` says who decided: `automatic`, or the deployment file's path.

    The host looks once in at most `stretch` passes of a loop; 0: at each before the next.

    `devices` are those that a rank or a copy of one uses. `prefill_tokens` are the most rows of
    prompts that one step reads.
    """

    name: str
    devices: tuple[Device, ...]
    assignments: tuple[Assignment, ...]
    copies: tuple[Copy, ...] = ()
    source: str
    max_requests: int
    max_tokens: int
    stretch: int = 0
    prefill_tokens: int = PREFILL_TOKENS

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that hold a node, in order."""
        return tuple(sorted({rank for a in self.assignments for rank in a.ranks}))

    def of(self, node: str) -> tuple[Assignment, ...]:
        """The assignments of a node."""
        return tuple(a for a in self.assignments if a.node == node)

    def assignment(self, node: str, walk: str, context: str | None) -> Assignment:
        """Where a call of a node runs."""
        return fitting(self.of(node), walk, context)


def fitting(found: Sequence[Assignment], walk: str, context: str | None) -> Assignment:
    """Of a node's assignments that of a call: one that names its context and walk, or one of them.

    Else one that names neither, and for a call that no assignment has in mind the first.
    """
    those = [a for a in found if not a.contexts or context in a.contexts]
    those = [a for a in those if not a.walks or walk in a.walks]
    return max(those or found[:1], key=lambda a: (bool(a.contexts), bool(a.walks)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """Set by partition: an edge that crosses ranks, from the site before to the one after.

    `contexts` are the KV contexts, as (node, context), whose rows travel with the values, and as
    (node, `sampler:NAME`) what a sampler keeps of the request; `row_bytes` is what one row of each
    context takes, together. `bytes_each` is of the values alone.
    """

    machine: str
    source_site: str
    target_site: str
    source_rank: int
    target_rank: int
    values: tuple[str, ...]
    bytes_each: int | None
    contexts: tuple[tuple[str, str], ...] = ()
    row_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Set by find-capture-regions: calls, in order, that one CUDA graph holds for a bucket."""

    name: str
    rank: int
    walk: str
    sites: tuple[str, ...]
    buckets: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncaptured:
    """A call that no region holds, and why."""

    site: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRow:
    """Set by plan-memory: what one thing takes on a device, which `rank` is the number of.

    `by` says where the size of weights is from.
    """

    rank: int
    what: MemoryKind
    of: str
    bytes: int
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PagePool:
    """Set by plan-memory: the pages of one node on a rank. A page holds `page_tokens` rows."""

    rank: int
    node: str
    pages: int
    page_tokens: int
    bytes_per_page: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Set by plan-memory: how many requests have room at once, up to those that were asked for.

    `full` of them at their longest, `expected` as they are expected to be; `rank` is the device
    that has least room.
    """

    asked: int
    full: int
    expected: int
    rank: int
