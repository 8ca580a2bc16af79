"""What may be chosen for a run, and what is taken where nothing is said.

It loads nothing, so that words can be read, and mistakes in them said, before torch is there.
"""

from typing import Literal

Cascade = Literal["auto", "on", "off"]
CASCADES: tuple[Cascade, ...] = ("auto", "on", "off")
"""Whether rows that contexts share are read once for all of them."""

Way = Literal["auto", "host", "device"]
WAYS: tuple[Way, ...] = ("auto", "host", "device")
"""How streams go from rank to rank."""

Joins = Literal["direct", "nccl"]
JOINS: tuple[Joins, ...] = ("direct", "nccl")
"""What puts few numbers of shards on GPUs together: memory of one another's, or the library."""

DEFAULT_JOINS: Joins = "direct"

DEFAULT_THREADS = 2
"""Of each rank."""

HIGH_WATER_MARK = 1000
"""Parcels that are under way to one participant before others have to stay where they are."""

START_TIMEOUT_S = 900.0
