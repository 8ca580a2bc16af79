"""Sizes of one node's cache, as the plan gives them."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLayout:
    """`pages` pages of `page_size` rows, shared by `slots` requests.

    `max_rows` is the most rows that one context of one request may hold. `cross` gives each
    cross-attention context its greatest number of rows. Of prompts that several requests hold in
    the same pages, chunks of `shared_chunk` rows are attended together (`levels`); 0 says that none
    are.
    """

    layers: int
    kv_heads: int
    head_dim: int
    pages: int
    page_size: int
    slots: int
    max_rows: int
    contexts: tuple[str, ...] = ("main",)
    cross: Mapping[str, int] = field(default_factory=dict)
    shared_chunk: int = 0

    def __post_init__(self) -> None:
        sizes = (self.layers, self.kv_heads, self.head_dim, self.pages, self.page_size)
        assert min(*sizes, self.slots, self.max_rows) >= 1, f"every size is at least 1: {self}"
        assert self.contexts, "a cache has at least one context"
        assert len(set(self.contexts)) == len(self.contexts), self.contexts

    @property
    def max_pages(self) -> int:
        """Pages that one context of one request can hold."""
        return -(-self.max_rows // self.page_size)

    @property
    def dummy_page(self) -> int:
        """The page that padded rows write to and read from; nobody is ever given it."""
        return self.pages
