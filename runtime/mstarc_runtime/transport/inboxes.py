"""Memory of each GPU of a group that the kernels of the others write: agreed on when it begins.

Every rank makes an inbox and lends it to the others (CUDA's inter-process handles), through the
store at which the group meets. Either all of them reach all others, or none of them uses any, and
everyone knows why: then a library does what `kernels.exchange` would.
"""

import json
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from mstarc_runtime.transport.device_memory import DeviceMemoryError

NUMBERS = 512
"""What one block tells the others at once: numbers of a channel."""
CHANNELS = 256
PATIENCE_S = 600.0
"""How long a kernel looks for what another rank is to post. A watched turn lasts no longer."""


class Store(Protocol):
    """Where members of a group leave words for one another; `get` waits for them."""

    def set(self, key: str, value: str) -> None: ...

    def get(self, key: str) -> bytes: ...


@dataclass(slots=True, kw_only=True)
class Inboxes:
    """The inboxes of a group's ranks, as rank `index` of `count` sees them.

    `addresses` are for kernels of its device, `epochs` i32[channels] of its own; `most` numbers are
    told at once.
    `is_alone`: what the ranks are waited for needs no other group's kernels on this device.
    """

    addresses: tuple[int, ...]
    epochs: Tensor
    index: int
    count: int
    is_alone: bool = True

    @property
    def channels(self) -> int:
        return self.epochs.shape[0]

    @property
    def most(self) -> int:
        return self.channels * NUMBERS


def inbox_words(count: int, channels: int = CHANNELS) -> int:
    """Words of 64 bits of one inbox of a group of `count`."""
    return 2 * count * channels * NUMBERS


class Lender(Protocol):
    """What is asked of the driver, and of the device that this process computes on."""

    def make(self, words: int) -> bytes:
        """An inbox of zeros: what is lent of it."""
        ...

    def own(self) -> int:
        """Its address."""
        ...

    def open(self, lent: bytes) -> int:
        """The address of another rank's."""
        ...


def agree(
    store: Store, lender: Lender, *, index: int, count: int, device: torch.device
) -> "Inboxes | str":
    """The group's inboxes, or why there are none: the same for all its ranks."""
    lent, failed = b"", ""
    try:
        lent = lender.make(inbox_words(count))
    except DeviceMemoryError as error:
        failed = str(error)
    offers = _all_say(store, "inbox", {"lent": lent.hex(), "failed": failed}, index, count)
    addresses: list[int] = []
    if not any(offer["failed"] for offer in offers):
        try:
            addresses = [
                lender.own() if other == index else lender.open(bytes.fromhex(offer["lent"]))
                for other, offer in enumerate(offers)
            ]
        except DeviceMemoryError as error:
            failed = str(error)
    # Whoever has opened all may begin only when everybody has.
    told = _all_say(store, "opened", {"failed": failed}, index, count)
    for words in told:
        if words["failed"]:
            return str(words["failed"])
    return Inboxes(
        addresses=tuple(addresses),
        epochs=torch.zeros(CHANNELS, dtype=torch.int32, device=device),
        index=index,
        count=count,
    )


def _all_say(
    store: Store, what: str, words: dict[str, str], index: int, count: int
) -> list[dict[str, Any]]:
    """What each rank says, in their order."""
    store.set(f"{what}-{index}", json.dumps(words))
    return [json.loads(store.get(f"{what}-{other}")) for other in range(count)]
