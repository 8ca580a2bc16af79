"""What takes memory on each device of a placement, and how many requests fit.

What a device holds is `base + a_request * requests` bytes, and on top of it pages of KV rows: of
each pool at least those of one request at its longest, and those of every admitted request as it is
expected. Everything that shares a device is counted together: ranks, followers, replicas.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from math import ceil

from mstarc.analysis.lengths import expected_rows, full_rows, used_by
from mstarc.analysis.op_costs import find_op
from mstarc.analysis.sizes import kv_row_bytes, weight_bytes
from mstarc.deployment import Deployment, DeviceKind
from mstarc.ir.decisions import PREFILL_TOKENS, STRETCH, Assignment, Placement
from mstarc.ir.graph import Call, Node, Program
from mstarc.ir.walking import all_statements
from mstarc.records import dataclass

PAGE_TOKENS = 16
# Who counts the pages of a pool without saying how large they are means pages of this size: that is
# what the number means where such files come from.
COUNTED_PAGE_TOKENS = 128
# A CPU is slower, and what runs beside waits for as long.
CPU_PREFILL_TOKENS = 512
# Of an accelerator's memory: libraries, fragments.
RESERVE = 0.05
# A further process on a device has libraries of its own.
PROCESS_BYTES = 6 * 10**8
# Of a CPU's memory: pages of KV rows leave the rest to others.
CPU_PAGES = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many requests run at once, rows of a context of one, rows of a page.

    `pages` is the number of pages of each node and rank, where the deployment says so;
    `prefill_tokens` the most rows of prompts that one step reads, in whole pages; `lent_pages` as
    many of each pool that requests which wait may have in host memory.
    """

    requests: int
    tokens: int
    page_tokens: int = PAGE_TOKENS
    pages: int | None = None
    stretch: int = 0
    prefill_tokens: int = PREFILL_TOKENS
    lent_pages: int = 0


def limits_of(deployment: Deployment | None, kind: DeviceKind) -> Limits:
    """What a deployment says, else the defaults of the device kind."""
    stretch = 0 if kind.is_cpu else STRETCH
    piece = CPU_PREFILL_TOKENS if kind.is_cpu else PREFILL_TOKENS
    if deployment is None:
        return Limits(
            requests=kind.max_requests,
            tokens=kind.max_tokens,
            stretch=stretch,
            prefill_tokens=piece,
        )
    if deployment.stretch is not None:
        stretch = deployment.stretch.value
    page_tokens = COUNTED_PAGE_TOKENS if deployment.max_pages else PAGE_TOKENS
    page_tokens = deployment.page_tokens.value if deployment.page_tokens else page_tokens
    if deployment.prefill_tokens is not None:
        piece = deployment.prefill_tokens.value
    return Limits(
        requests=deployment.max_requests.value if deployment.max_requests else kind.max_requests,
        tokens=deployment.max_seq_len.value if deployment.max_seq_len else kind.max_tokens,
        page_tokens=page_tokens,
        pages=deployment.max_pages.value if deployment.max_pages else None,
        stretch=stretch,
        prefill_tokens=-(-piece // page_tokens) * page_tokens,
        lent_pages=deployment.lent_pages.value if deployment.lent_pages else 0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolNeed:
    """The pages of one node on the ranks of one assignment, the same number on each of them.

    `full`, `expected`: pages of one request at its longest, and as expected. `devices` are those
    of the ranks and of their `copies`, each of which serves as many of the requests. `lent` more
    pages are in host memory, of requests that wait.
    """

    node: str
    ranks: tuple[int, ...]
    devices: tuple[int, ...]
    full: int
    expected: int
    page_bytes: int
    copies: int = 1
    lent: int = 0

    def share(self, requests: int) -> int:
        """How many of so many requests one copy serves at most."""
        return -(-requests // self.copies)


def pool_needs(
    program: Program, placement: Placement, limits: Limits, kind: DeviceKind
) -> tuple[PoolNeed, ...]:
    """The pools of a placement, in the order of ranks and nodes; `kind` says the rows' dtype."""
    nodes = {node.name: node for node in program.nodes}
    devices = devices_by_rank(placement)
    lengths = expected_rows(program, limits.tokens)
    used = contexts_by_home(program)
    needs: dict[tuple[str, int], PoolNeed] = {}
    for assignment in placement.assignments:
        node = nodes[assignment.node]
        home = assignment.ranks[0]
        if node.engine != "kv_cache" or (node.name, home) in needs:
            continue
        row = kv_row_bytes(node, kind.dtype, assignment.tp)
        assert row is not None, f"`kv` of `{node.name}` gives no layers, heads and head_dim"
        longest = full_rows(program, node, limits.tokens)
        paged = [
            name
            for name in used.get((node.name, home)) or longest
            if name in longest and not _is_cross(node, name)
        ]
        full = sum(ceil(longest[name] / limits.page_tokens) for name in paged)
        usual = sum(ceil(lengths[node.name, name] / limits.page_tokens) for name in paged)
        needs[node.name, home] = PoolNeed(
            node=node.name,
            ranks=assignment.ranks,
            devices=tuple(d for rank in assignment.ranks for d in devices[rank]),
            full=max(full, 1),
            expected=max(min(usual, full), 1),
            page_bytes=limits.page_tokens * row,
            copies=len(devices[home]),
            lent=limits.lent_pages,
        )
    return tuple(sorted(needs.values(), key=lambda need: need.ranks[0]))


def devices_by_rank(placement: Placement) -> dict[int, tuple[int, ...]]:
    """The devices of each rank's processes: its own, then those of its copies."""
    found: dict[int, tuple[int, ...]] = {rank: (rank,) for rank in placement.ranks}
    for copy in placement.copies:
        found[copy.rank] = (*found.get(copy.rank, (copy.rank,)), copy.device)
    return found


def contexts_by_home(program: Program) -> dict[tuple[str, int], tuple[str, ...]]:
    """Contexts that calls use, by the node and the rank where they do, in order of declaration."""
    nodes = {node.name: node for node in program.nodes}
    found: dict[tuple[str, int], set[str]] = {}
    for call in all_statements(program):
        if isinstance(call, Call) and nodes[call.node].engine == "kv_cache":
            node = nodes[call.node]
            names = used_by(node, find_op(node, call.op), call)
            found.setdefault((node.name, call.home), set()).update(names)
    return {
        (name, rank): tuple(c.name for c in nodes[name].contexts if c.name in used)
        for (name, rank), used in found.items()
    }


def _is_cross(node: Node, name: str) -> bool:
    return any(context.name == name and context.cross is not None for context in node.contexts)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNeed:
    """One device: bytes whatever runs, bytes for each request, and the pools with pages on it."""

    device: int
    memory_bytes: int
    is_cpu: bool
    base: int
    a_request: int
    pools: tuple[PoolNeed, ...]
    # A pool's part of the device is a multiple of its pages where several processes are there.
    times: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def full_bytes(self, requests: int = 1) -> int:
        """Bytes of the pages of so many requests at their longest, in all pools."""
        return sum(self.bytes_of(pool, pool.full * pool.share(requests)) for pool in self.pools)

    def expected_bytes(self, requests: int) -> int:
        """Bytes of the pages of so many requests as they are expected, in all pools; of those that
        are not lent."""
        return sum(
            self.bytes_of(pool, max(0, pool.expected * pool.share(requests) - pool.lent))
            for pool in self.pools
        )

    def bytes_of(self, pool: PoolNeed, pages: int) -> int:
        """Bytes on this device of `pages` pages of a pool, in all processes that have it."""
        return pages * pool.page_bytes * self.times.get((pool.node, pool.ranks[0]), 1)

    def left(self, requests: int) -> int:
        """Bytes that are free for pages when so many requests may run."""
        return self.memory_bytes - self.base - self.a_request * requests

    def most(self, asked: int) -> int:
        """The most requests up to `asked` that fit as expected, with one of them at its longest."""
        whole = self.full_bytes()
        return _most(asked, lambda n: max(whole, self.expected_bytes(n)) <= self.left(n))

    def most_full(self, slots: int) -> int:
        """The most requests up to `slots` that have room at their longest."""
        left = self.left(slots)
        return _most(slots, lambda n: self.full_bytes(n) <= left)


def _most(asked: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `asked` that fits; if one fits, so do all below it."""
    low, high = 0, asked
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def pages_of(need: DeviceNeed, requests: int) -> dict[tuple[str, int], int]:
    """Pages of each pool on a device by (node, first rank): never more than all requests fill.

    Each has those of one request at its longest, and of what is left a part in proportion to what
    requests are expected to take.
    """
    left = need.left(requests)
    if need.is_cpu:
        left = min(left, max(int(need.memory_bytes * CPU_PAGES), need.full_bytes()))
    pages = {(pool.node, pool.ranks[0]): pool.full for pool in need.pools}
    spare = left - need.full_bytes()
    open_pools = [pool for pool in need.pools if pool.share(requests) > 1]
    while open_pools and spare > 0:
        weight = sum(need.bytes_of(pool, pool.expected) for pool in open_pools)
        rounds = spare / weight
        capped = [
            pool
            for pool in open_pools
            if pages[pool.node, pool.ranks[0]] + pool.expected * rounds >= _cap(pool, requests)
        ]
        if not capped:
            for pool in open_pools:
                pages[pool.node, pool.ranks[0]] += int(pool.expected * rounds)
            break
        for pool in capped:
            key = pool.node, pool.ranks[0]
            spare -= need.bytes_of(pool, _cap(pool, requests) - pages[key])
            pages[key] = _cap(pool, requests)
        open_pools = [pool for pool in open_pools if pool not in capped]
    return pages


def _cap(pool: PoolNeed, requests: int) -> int:
    """Pages that all requests of a copy take at their longest."""
    return pool.full * pool.share(requests)


def node_bytes(
    program: Program,
    node: Node,
    kind: DeviceKind,
    limits: Limits,
    measured: Mapping[str, int],
) -> tuple[int, int]:
    """Bytes of weights, and of KV rows of one request at its longest; unknown is none."""
    weights = weight_bytes(node, measured) or 0
    if node.engine != "kv_cache":
        return weights, 0
    row = kv_row_bytes(node, kind.dtype) or 0
    if limits.pages is not None:
        return weights, limits.pages * limits.page_tokens * row
    rows = full_rows(program, node, limits.tokens).values()
    pages = sum(ceil(count / limits.page_tokens) for count in rows)
    return weights, pages * limits.page_tokens * row


def instances(placement: Placement) -> Iterable[tuple[Assignment, int, int]]:
    """Each (assignment, rank, device) that holds weights, a node once a process."""
    devices = devices_by_rank(placement)
    seen: set[tuple[str, int]] = set()
    for assignment in placement.assignments:
        for rank in assignment.ranks:
            if (assignment.node, rank) not in seen:
                seen.add((assignment.node, rank))
                yield from ((assignment, rank, device) for device in devices[rank])
