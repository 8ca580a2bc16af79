"""A placement as a plan's `placement.json` has it, read back."""

import json
from typing import Any

from mstarc.ir.decisions import Assignment, Copy, Device, Placement


def placement_of(text: str) -> Placement:
    """What `views.documents` has written of a placement."""
    document: dict[str, Any] = json.loads(text)
    return Placement(
        name=document["name"],
        devices=tuple(
            Device(rank=d["device"], kind=d["kind"], memory_bytes=d["memory_bytes"])
            for d in document["devices"]
        ),
        assignments=tuple(
            Assignment(
                node=a["node"],
                ranks=tuple(a["ranks"]),
                walks=tuple(a["walks"]),
                contexts=tuple(a["contexts"]),
                tp=a["tp"],
                sp=a["sp"],
            )
            for a in document["assignments"]
        ),
        copies=tuple(
            Copy(rank=p["rank"], copy=p["copy"], device=p["device"])
            for p in document["processes"]
            if p["copy"]
        ),
        source=document["source"],
        max_requests=document["max_requests"],
        max_tokens=document["max_tokens"],
        stretch=document["stretch"],
        prefill_tokens=document["prefill_tokens"],
    )


def devices_of(placement: Placement) -> str:
    """The devices that a placement is on, as a command line would name them."""
    kinds = dict.fromkeys(device.kind for device in placement.devices)
    if len(kinds) == 1:
        return f"{1 + max(device.rank for device in placement.devices)}x{next(iter(kinds))}"
    return "+".join(
        f"{sum(1 for device in placement.devices if device.kind == kind)}x{kind}" for kind in kinds
    )
