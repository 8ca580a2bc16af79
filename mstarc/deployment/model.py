"""What a deployment file says, each value with its place in the file.

model: orpheus
device_kinds: {H200: {memory_bytes: 120.0e9}}    # ours; over the catalogue's
devices: 2xH200                 # ours; without it the devices are those of the command line
max_seq_len: 8192
max_concurrent_requests: 64
kv_cache: {max_num_pages: 4096, page_size: 16}
model_kwargs: {action_horizon: 15}    # over the spec's config
node_groups:
  - node_names: [LLM]
    ranks: [0]
    graph_walks: [prefill, decode]
  - {node_names: [snac_decoder], ranks: [1]}
"""

from mstarc.deployment.catalog import DeviceKind, Devices
from mstarc.deployment.sizes import ConfigValue
from mstarc.records import dataclass
from mstarc.source import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A name as the file writes it."""

    value: str
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A whole number as the file writes it."""

    value: int
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Kwarg:
    """An entry of `model_kwargs`."""

    name: Named
    value: ConfigValue
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Nodes that run on the same ranks. `walks` None means in every walk.

    `ranks_span` is the list, brackets included.
    """

    nodes: tuple[Named, ...]
    ranks: tuple[Number, ...]
    ranks_span: Span
    tp_size: Number | None = None
    sp_size: Number | None = None
    walks: tuple[Named, ...] | None = None
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """One file. `name` is the file's, without folder and suffix; `groups_span` is the key's.

    `kinds` are all known device kinds where the file has some of its own, else none.
    """

    name: str
    path: str
    model: Named
    kinds: tuple[DeviceKind, ...] = ()
    devices: Devices | None = None
    devices_span: Span | None = None
    max_seq_len: Number | None = None
    max_requests: Number | None = None
    max_pages: Number | None = None
    page_tokens: Number | None = None
    stretch: Number | None = None
    prefill_tokens: Number | None = None
    lent_pages: Number | None = None
    kwargs: tuple[Kwarg, ...] = ()
    groups: tuple[Group, ...]
    groups_span: Span

    @property
    def rank_count(self) -> int:
        """One more than the highest rank that a group names."""
        return 1 + max(rank.value for group in self.groups for rank in group.ranks)
