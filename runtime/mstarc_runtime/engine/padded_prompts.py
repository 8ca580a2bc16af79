"""Prompts of several lengths, padded to as many rows a request: what a graph of them can serve.

A prompt's length differs from request to request, and a graph has one. So prompts that are read
together are padded to the next of a few lengths, and their number to a power of two. Padding comes
behind a request's own rows, where its rows do not look; it is written to the dummy page. What an op
takes and gives a row of is padded and cut, what it gives a request of is cut.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils._pytree import tree_map

MOST_ROWS = 2048
"""With more rows than these the device has more to do than the host with launching its kernels."""
_LENGTHS = (16, 32, 64, 128, 256, 512)
_LENGTHS_OF_ONE = (*_LENGTHS[:4], 192, 256, 384, *range(512, 1024, 128), *range(1024, 2049, 256))


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddedPrompts:
    """`counts` i64[n] rows of n requests, padded to `bucket` requests of `each` rows.

    `at` i64[sum of counts]: where the rows are among the padded ones, on the device.
    """

    counts: NDArray[np.int64]
    bucket: int
    each: int
    at: Tensor

    @classmethod
    def of(cls, counts: NDArray[np.int64], device: torch.device) -> Self | None:
        """None where padded prompts would be too many rows."""
        bucket = 1 << (counts.size - 1).bit_length()
        lengths = _LENGTHS_OF_ONE if bucket == 1 else _LENGTHS
        number = bisect_left(lengths, int(counts.max()))
        if number == len(lengths) or bucket * lengths[number] > MOST_ROWS:
            return None
        each = lengths[number]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = np.repeat(np.arange(counts.size) * each, counts) + within
        at = torch.from_numpy(rows)
        if device.type == "cuda":
            at = at.pin_memory().to(device, non_blocking=True)
        return cls(counts=counts, bucket=bucket, each=each, at=at)

    def takes(self, arguments: Sequence[Any]) -> bool:
        """Whether all that an op takes are rows, or a value of each request, and which is clear."""
        rows, requests = len(self.at), self.counts.size
        if rows == requests and len(arguments) > 1:
            return False
        return all(isinstance(a, Tensor) and a.shape[0] in (rows, requests) for a in arguments)

    def padded(self, rows: Tensor) -> Tensor:
        """[bucket * each, …]: the rows among zeros; or [bucket, …] of a value of each request."""
        if rows.shape[0] != len(self.at):
            whole = rows.new_zeros((self.bucket, *rows.shape[1:]))
            whole[: self.counts.size] = rows
            return whole
        whole = rows.new_zeros((self.bucket * self.each, *rows.shape[1:]))
        return whole.index_copy_(0, self.at, rows)

    def cut(self, results: Any) -> Any:
        """The results without what padding has got: a row of each request's, or of each row's."""
        return tree_map(lambda part: part if part is None else self._cut(part), results)

    def _cut(self, result: Tensor) -> Tensor:
        if result.shape[0] == self.bucket:
            return result[: self.counts.size]
        assert result.shape[0] == self.bucket * self.each, (
            f"an op by shape gives a row of each request or of each row, not {list(result.shape)}"
        )
        return result.index_select(0, self.at)
