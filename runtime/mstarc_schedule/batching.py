"""Which step runs next, and how many rows it takes.

A station is a step with the rows that wait at it. `choose` takes turns: of the stations that can
run, the one that has waited longest, so a stream's reader follows its producer closely and a long
decode starves nobody.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

# Rows of a deterministic step: on a CPU a row costs as much alone as among others.
DEFAULT_TILE_ROWS = 1
# Rows of prompts that one step reads where no plan says otherwise.
PREFILL_TOKENS = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPolicy:
    """How rows become batches.

    `deterministic`: a row's numbers must not depend on who runs beside it, so one-row steps run at
    exactly `tile_rows` rows and every other step runs one request at a time. `token_budget` bounds
    the rows that packed requests bring to one step; a single request whose prompt can't be read in
    pieces may exceed it.
    """

    deterministic: bool
    tile_rows: int = 8
    token_budget: int = PREFILL_TOKENS

    def __post_init__(self) -> None:
        assert self.tile_rows >= 1, self
        assert self.token_budget >= 1, self


def default_policy(*, all_cpu: bool) -> BatchPolicy:
    """How rows become batches where nobody says otherwise: on CPUs a row's numbers are its own.

    >>> default_policy(all_cpu=False).deterministic
    False
    """
    return BatchPolicy(deterministic=all_cpu, tile_rows=DEFAULT_TILE_ROWS)


def choose(last_turns: Sequence[int]) -> int:
    """Which of the stations that can run does: the one whose last turn is longest ago.

    >>> choose([4, 2, 7])
    1
    """
    return min(range(len(last_turns)), key=last_turns.__getitem__)


def most_rows(policy: BatchPolicy, rows: str, buckets: Sequence[int], max_requests: int) -> int:
    """The most requests that one run of a step may hold.

    >>> most_rows(BatchPolicy(deterministic=True), "one", (1, 2, 4), 64)
    8
    >>> most_rows(BatchPolicy(deterministic=False), "one", (1, 2, 4), 64)
    4
    """
    if policy.deterministic:
        return policy.tile_rows if rows == "one" else 1
    return min(max(buckets), max_requests) if buckets else max_requests


def bucket_of(
    policy: BatchPolicy, rows: str, buckets: Sequence[int], count: int, *, captured: bool
) -> int:
    """The rows that `count` requests are padded to.

    >>> bucket_of(BatchPolicy(deterministic=True, tile_rows=4), "one", (), 3, captured=False)
    4
    >>> bucket_of(BatchPolicy(deterministic=False), "one", (1, 2, 4, 8), 3, captured=True)
    4
    >>> bucket_of(BatchPolicy(deterministic=False), "packed", (), 3, captured=False)
    3
    """
    if policy.deterministic and rows == "one":
        return policy.tile_rows
    if not captured:
        return count
    return min((bucket for bucket in buckets if bucket >= count), default=count)


def take_packed(policy: BatchPolicy, tokens: Sequence[int], most: int) -> int:
    """How many of the waiting requests, first come first, fit the token budget; at least one.

    >>> take_packed(BatchPolicy(deterministic=False, token_budget=100), [60, 30, 20], 64)
    2
    >>> take_packed(BatchPolicy(deterministic=False, token_budget=100), [500, 1], 64)
    1
    """
    total, count = 0, 0
    for needed in tokens[:most]:
        total += needed
        if count and total > policy.token_budget:
            break
        count += 1
    return count


def piece_of(policy: BatchPolicy, left: int) -> int:
    """How many of a prompt's rows are read next: no step reads more than the token budget.

    So where a prompt is cut depends on the prompt alone, and not on who is beside it.

    >>> [piece_of(BatchPolicy(deterministic=True, token_budget=64), left) for left in (150, 64)]
    [64, 64]
    """
    return min(left, policy.token_budget)


def behind_whole(policy: BatchPolicy, lefts: Sequence[int]) -> list[int]:
    """The order of waiting prompts after a piece of one: first those that one step can end.

    Who comes later stands behind that one: a long prompt is held up by those that wait now alone.

    >>> behind_whole(BatchPolicy(deterministic=True, token_budget=64), [200, 10, 90, 64])
    [1, 3, 0, 2]
    """
    return sorted(range(len(lefts)), key=lambda index: lefts[index] > policy.token_budget)


def next_group(sizes: Sequence[int], ready: int, most: int) -> int:
    """Which group of rows that stay together runs next; `len(sizes)` is a group to be made.

    The groups take turns, the first now and then at the end. `ready` rows that stand beside them
    join one with room when it is its turn, and make one where none has room.

    >>> next_group([4, 2], ready=1, most=4), next_group([4, 4], ready=1, most=4)
    (0, 2)
    """
    return len(sizes) if ready and all(size >= most for size in sizes) else 0


def take_alike(shapes: Sequence[Hashable], most: int) -> list[int]:
    """Which of the waiting requests run together where only equal shapes do: those like the first.

    >>> take_alike([3, 4, 3, 3], 2)
    [0, 2]
    """
    return [index for index, shape in enumerate(shapes) if shape == shapes[0]][:most]
