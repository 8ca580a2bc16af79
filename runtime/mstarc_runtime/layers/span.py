"""Parts of a sequence: what a layer is to make, and so what the layer before it must."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Positions `begin` <= i < `end` of a sequence of `length`."""

    begin: int
    end: int
    length: int

    def __len__(self) -> int:
        return self.end - self.begin

    def widened(self, by: int) -> "Span":
        """With `by` more on each side, as far as the sequence reaches."""
        begin, end = max(self.begin - by, 0), min(self.end + by, self.length)
        return Span(begin=begin, end=end, length=self.length)

    def of(self, x: Tensor, held: "Span", *, beyond: int = 0) -> Tensor:
        """This of `x` [..., held], and `beyond` on each side; zeros where the sequence ends."""
        first, last = self.begin - beyond, self.end + beyond
        inside = x[..., max(first, 0) - held.begin : min(last, self.length) - held.begin]
        before, behind = max(-first, 0), max(last - self.length, 0)
        return functional.pad(inside, (before, behind)) if before or behind else inside
