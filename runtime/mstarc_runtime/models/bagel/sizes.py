"""Which side an image gets: within bounds, in whole steps, of about the same shape."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

Size = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """In pixels: the longer side is at most `most`, the shorter one at least `least`, both are
    multiples of `step`, and there are at most `pixels` in all. A long, narrow image is made
    narrower than `least` rather than longer than `most`."""

    least: int
    most: int
    step: int
    pixels: int

    def size(self, width: int, height: int) -> Size:
        """(width, height) that an image of this size gets."""
        scale = min(self.most / max(width, height), 1.0)
        scale = max(scale, self.least / min(width, height))
        size = self._stepped(width, height, scale)
        if size[0] * size[1] > self.pixels:
            size = self._stepped(*size, self.pixels / (size[0] * size[1]))
        if max(size) > self.most:
            size = self._stepped(*size, self.most / max(size))
        return size

    def fitted(self, image: "Image") -> "Image":
        """The image at its size, by bicubic interpolation."""
        from PIL.Image import Resampling

        return image.resize(self.size(*image.size), Resampling.BICUBIC)

    def _stepped(self, width: int, height: int, scale: float) -> Size:
        return self._multiple(round(width * scale)), self._multiple(round(height * scale))

    def _multiple(self, side: int) -> int:
        return max(self.step, round(side / self.step) * self.step)
