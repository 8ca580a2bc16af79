"""A compiled plan of parts on real ranks: host steps find parts, flags differ from pass to pass."""

import json
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mstarc_runtime.plan_api import Media, Part, parts_in_order
from mstarc_runtime.request import PreparedRequest
from tests.runtime.rig import Collected, Rig
from tests.support.toy_ranks import module, plan_package
from tests.unit.plan.test_parts import SPLITS, files_of


class Front:
    """As many ids as a text has letters, as many rows as a picture has bytes."""

    @classmethod
    def build(cls, config: Mapping[str, Any], **_: Any) -> "Front":
        return cls()

    def text(self, part: str, role: str, opens: bool, last: bool) -> Tensor:
        assert isinstance(opens, bool)
        return torch.arange(len(part))

    def image(self, part: Media, urgent: bool) -> Tensor:
        return torch.zeros(len(part.content), 4)

    def audio(self, part: str) -> Tensor:
        return torch.arange(len(part))


class See(nn.Module):
    @classmethod
    def build(cls, config: Mapping[str, Any], **_: Any) -> "See":
        return cls()

    def look(self, ctx: Any, px: Tensor) -> Tensor:
        return torch.zeros(*px.shape[:2], 8)


class Lm(nn.Module):
    """A token says where the last row stands, and what flag it came with."""

    @classmethod
    def build(cls, config: Mapping[str, Any], **_: Any) -> "Lm":
        return cls()

    def read(self, ctx: Any, ids: Tensor, last: Tensor) -> Tensor:
        return self._last(ctx) + 1000 * torch.as_tensor(last).to(torch.int64)

    def view(self, ctx: Any, emb: Tensor, mine: Tensor) -> Tensor:
        return self._last(ctx) + 2000 * torch.as_tensor(mine).to(torch.int64)

    def step(self, ctx: Any, token: Tensor) -> Tensor:
        positions: Tensor = ctx.positions
        return positions + 10_000

    def _last(self, ctx: Any) -> Tensor:
        last: Tensor = ctx.positions[ctx.last_rows]
        return last


def expected(parts: tuple[Part, ...], loud: bool) -> list[int]:
    """What the spec says a request gets."""
    made: list[int] = []
    rows = 0

    def view(part: Part, flag: bool) -> int:
        nonlocal rows
        rows += len(part.value.content)
        made.append(rows - 1 + 2000 * flag)
        return made[-1]

    def say() -> None:
        nonlocal rows
        rows += 1
        made.append(rows - 1 + 10_000)

    for part in parts:
        if part.kind != "image":
            rows += len(part.value)
            continue
        if part.first or loud:
            view(part, part.role == "user" and not part.closes)
            say()
        view(part, part.last)
    say()
    return made


def some_parts(chance: Random) -> tuple[Part, ...]:
    parts = []
    for _ in range(chance.randint(1, 5)):
        kind = chance.choice(["text", "image", "audio"])
        size = chance.randint(1, 6)
        value = Media(kind="image", content=bytes(size)) if kind == "image" else "x" * size
        parts.append(Part(kind=kind, value=value, role=chance.choice(["user", "assistant"])))
    return parts_in_order(parts)


@pytest.mark.parametrize("split", SPLITS)
def test_requests_get_what_their_parts_say(split: str) -> None:
    files = {n: t.replace('source=""', 'source="random"') for n, t in files_of(split).items()}
    placed = json.loads(files[f"placements/{split}/placement.json"])
    with plan_package(files) as (messages, machines):
        loaded = [
            module(f"compiled_{index}", files[f"placements/{split}/rank{index}.py"])
            for index in range(len(placed["devices"]))
        ]
        rig = Rig(
            [(one.RANK, one.STEPS) for one in loaded],
            machines={n: (m["rank"], m["step"]) for n, m in placed["machines"].items()},
            models={"toy:Front": Front, "toy:See": See, "toy:Lm": Lm},
            outputs={"out": "i64"},
            admit=lambda given: machines.admit(messages.Request(**given)),
        )
        chance = Random(7)
        waiting: list[tuple[list[int], Collected]] = []
        for number in range(12):
            parts, loud = some_parts(chance), chance.random() < 0.5
            listener = Collected()
            prepared = PreparedRequest(
                name=str(number),
                inputs={"parts": parts},
                options={"loud": loud},
                wants=frozenset({"out"}),
                seed=0,
            )
            rig.conductor.submit(prepared, listener)
            waiting.append((expected(parts, loud), listener))
        rig.run()
        for meant, listener in waiting:
            assert listener.failure is None, listener.failure
            assert listener.values["out"] == meant
        rig.check_clean()
