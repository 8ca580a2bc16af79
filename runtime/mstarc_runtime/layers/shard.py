"""Which part of a node's module this process holds, and how the parts' results are put together.

`Shard` is handed to a module's `build` by the engine. What a layer takes of each whole parameter it
says as a `Portion`, so that weights are read, or drawn, as these parts alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from mstarc_runtime.errors import RuntimeFailure

if TYPE_CHECKING:
    from mstarc_runtime.transport.inboxes import Inboxes

Range = tuple[int, int]


class Collectives(Protocol):
    """What the members of a group do together; each calls the same in the same order."""

    def sum(self, value: Tensor) -> Tensor:
        """The members' values added up, the same bits for everyone. `value` may be overwritten."""
        ...

    def broadcast(self, value: Tensor) -> Tensor:
        """The first member's value, into `value` of the others."""
        ...

    def gather(self, value: Tensor) -> list[Tensor]:
        """Every member's value, in the members' order; all have one shape."""
        ...

    def inboxes(self, numbers: int) -> "Inboxes | None":
        """By what kernels tell the members so many numbers of 32 bits; None where they can't."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """Part `index` of `count` of every sharded layer; `group` are the processes of the others.

    `sp_index`, `sp_count` and `sp_group` are the same for a split by rows of a sequence.
    """

    index: int = 0
    count: int = 1
    group: Collectives | None = None
    sp_index: int = 0
    sp_count: int = 1
    sp_group: Collectives | None = None

    def part(self, total: int) -> Range:
        """This part of `total` things in a row; parts differ by at most one thing."""
        return _part(total, self.index, self.count)

    def heads(self, total: int, what: str) -> Range:
        """This part of `total` heads. Fails with MS9012 where they can't be divided evenly."""
        if total % self.count:
            raise not_divisible(total, what, self.count)
        return self.part(total)

    def kv_heads(self, total: int) -> Range:
        """This part of `total` key-value heads; where there are fewer heads than parts, several
        parts hold the same one. Fails with MS9012 where neither divides the other."""
        if total >= self.count:
            return self.heads(total, "key-value heads")
        if self.count % total:
            raise not_divisible(total, "key-value heads", self.count)
        head = self.index // (self.count // total)
        return head, head + 1

    def sum(self, value: Tensor) -> Tensor:
        """The parts' values added up."""
        return value if self.group is None else self.group.sum(value)

    def gather(self, value: Tensor, total: int) -> Tensor:
        """The parts' values [..., part] side by side: [..., total]."""
        if self.group is None:
            return value
        sizes = [stop - start for start, stop in self._parts(total)]
        padded = functional.pad(value, (0, max(sizes) - value.shape[-1])).contiguous()
        parts = self.group.gather(padded)
        return torch.cat([part[..., :size] for part, size in zip(parts, sizes, strict=True)], -1)

    def gather_heads(self, value: Tensor, total: int) -> Tensor:
        """The parts' key-value heads [..., part, head_dim], each once: [..., total, head_dim]."""
        if self.group is None:
            return value
        parts = self.group.gather(value.contiguous())
        return torch.cat(parts[:: max(1, self.count // total)], dim=-2)

    def _parts(self, total: int) -> list[Range]:
        return [_part(total, index, self.count) for index in range(self.count)]


WHOLE = Shard()


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """What a parameter holds of the whole one of shape `whole`: `ranges` of its dim `dim`, one
    behind the other."""

    whole: tuple[int, ...]
    dim: int
    ranges: tuple[Range, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of what is held."""
        size = sum(stop - start for start, stop in self.ranges)
        return (*self.whole[: self.dim], size, *self.whole[self.dim + 1 :])


def rows_of(pieces: Sequence[tuple[int, Range]]) -> tuple[int, tuple[Range, ...]]:
    """Pieces that follow one another, each (its size, the range that is held of it) → the size of
    all, and the ranges in it.

    >>> rows_of([(8, (4, 8)), (2, (0, 1))])
    (10, ((4, 8), (8, 9)))
    """
    ranges: list[Range] = []
    total = 0
    for size, (start, stop) in pieces:
        ranges.append((total + start, total + stop))
        total += size
    return total, tuple(ranges)


def portions(module: nn.Module) -> Mapping[str, Portion]:
    """The portion of every parameter that is not whole, by the parameter's name in `module`."""
    found: dict[str, Portion] = {}
    for prefix, part in module.named_modules():
        held: Mapping[str, Portion] = getattr(part, "portions", {})
        for name, portion in held.items():
            found[f"{prefix}.{name}" if prefix else name] = portion
    return found


def not_divisible(total: int, what: str, count: int) -> RuntimeFailure:
    """The failure for things of a module that can't be spread over a group."""
    return RuntimeFailure(
        "MS9012",
        f"{total} {what} can't be divided among {count} ranks",
        helps=["choose a `tp_size` that divides them"],
    )


def _part(total: int, index: int, count: int) -> Range:
    return total * index // count, total * (index + 1) // count
