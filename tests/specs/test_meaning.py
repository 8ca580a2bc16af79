"""What requests to the large specs come to: which calls run, how often, on what."""

from collections.abc import Mapping
from typing import Any

import pytest

from mstarc.ir.graph import Program
from mstarc.ir.interpret import Outcome, Part, Request, interpret
from tests.support.front_half import lowered
from tests.support.shipped_specs import SPECS_BY_NAME


def program(name: str) -> Program:
    return lowered(SPECS_BY_NAME[name].source.text)


def outcome(program: Program, **request: Any) -> Outcome:
    """What comes of a request in which no token ends a loop."""
    found = interpret(program, Request(**request))
    assert found.error is None
    assert not found.stuck
    return found


def runs(outcome: Outcome, walk: str) -> Mapping[str, int]:
    """How often each call of a walk ran."""
    return {
        site.removeprefix(f"{walk}/"): count
        for site, count in outcome.calls.items()
        if site.startswith(f"{walk}/")
    }


# Qwen3-Omni


@pytest.fixture(scope="module")
def omni() -> Program:
    return program("qwen3_omni")


SPOKEN = (
    Part(kind="text", value="be brief", role="system"),
    Part(kind="image", value="a cat", role="user"),
    Part(kind="text", value="what is it?", role="user"),
)


def test_omni_speaks_only_when_asked_to(omni: Program) -> None:
    found = outcome(
        omni,
        inputs={"parts": SPOKEN},
        options={"max_tokens": 5},
        wants=frozenset({"reply"}),
    )
    assert len(found.emits["reply"]) == 5
    assert not found.streams["states"].items
    walks = {site.split("/")[0] for site in found.calls}
    assert not walks & {"talker_prefill", "talker_last_prefill", "talker_decode", "code2wav_chunk"}


def test_omni_talker_hears_user_turns_the_answer_and_its_end(omni: Program) -> None:
    found = outcome(
        omni,
        inputs={"parts": SPOKEN},
        options={"max_tokens": 5, "talker_max_tokens": 3},
        wants=frozenset({"reply", "speech"}),
    )
    states = found.streams["states"]
    (mark,) = states.marks
    assert mark[1] == "prompt_end"
    # The tokens of the answer but the last one allowed, and the row that says that it has ended.
    assert len(states.items) == mark[0] + 4 + 1
    heard = outcome(
        omni,
        inputs={"parts": (*SPOKEN[:1] * 9, SPOKEN[2])},
        options={"max_tokens": 5, "talker_max_tokens": 3},
        wants=frozenset({"speech"}),
    )
    (mark,) = heard.streams["states"].marks
    assert 1 <= mark[0] <= 4, "a toy text has up to four rows, and system turns are not heard"


def test_omni_draws_the_other_codes_of_each_frame(omni: Program) -> None:
    found = outcome(
        omni,
        inputs={"parts": SPOKEN},
        options={"max_tokens": 2, "talker_max_tokens": 7},
        wants=frozenset({"speech"}),
    )
    assert len(found.streams["frames"].items) == 7
    assert all(len(frame) == 16 for frame in found.streams["frames"].items)
    assert runs(found, "talker_decode")["1"] == 7 * 15
    # The Talker went on when the Thinker had finished: four frames at once, then the other three.
    assert runs(found, "code2wav_chunk") == {"0": 2}


# BAGEL


@pytest.fixture(scope="module")
def bagel() -> Program:
    return program("bagel")


@pytest.mark.parametrize(
    ("text_scale", "image_scale", "photo", "branches"),
    [
        (1.0, 1.0, False, {"5": 8}),
        (4.0, 1.0, False, {"1": 6, "2": 6, "4": 6, "5": 2}),
        (4.0, 2.0, False, {"1": 6, "2": 6, "3": 6, "4": 6, "5": 2}),
        (1.0, 2.0, True, {"5": 8}),
        (4.0, 2.0, True, {"1": 6, "2": 6, "3": 6, "4": 6, "5": 2}),
    ],
)
def test_bagel_guides_in_its_interval_only(
    bagel: Program, text_scale: float, image_scale: float, photo: bool, branches: dict[str, int]
) -> None:
    parts = [Part(kind="text", value="a red one")]
    if photo:
        parts.insert(0, Part(kind="image", value="a car"))
    found = outcome(
        bagel,
        inputs={"parts": tuple(parts)},
        options={
            "text_scale": text_scale,
            "image_scale": image_scale,
            "steps": 9,
            "shift": 1.0,
            "guide_from": 0.3,
            "height": 256,
            "width": 256,
        },
        wants=frozenset({"picture"}),
    )
    # t of the eight updates: 1, 7/8, …, 1/8; the first six lie above 0.3.
    counts = runs(found, "image_gen")
    assert {site: counts[site] for site in counts.keys() & {"1", "2", "3", "4", "5"}} == branches
    assert counts["6"] == 8
    assert len(found.emits["picture"]) == 1
    assert not found.emits["reply"]


def test_bagel_thinks_before_it_draws_and_keeps_thoughts_from_other_contexts(
    bagel: Program,
) -> None:
    options = {"think": True, "max_tokens": 4, "steps": 2, "height": 256, "width": 256}
    parts = (Part(kind="image", value="a car"), Part(kind="text", value="make it red"))
    found = outcome(bagel, inputs={"parts": parts}, options=options, wants=frozenset({"picture"}))
    assert runs(found, "open_turn")["0"] == runs(found, "close_turn")["0"] == 1
    assert runs(found, "decode")["0"] == 4
    assert "1" not in runs(found, "prefill_text")
    edited = outcome(
        bagel,
        inputs={"parts": parts},
        options={**options, "image_scale": 2.0},
        wants=frozenset({"picture"}),
    )
    assert runs(edited, "prefill_text")["1"] == 1
    assert set(runs(edited, "decode")) == set(runs(found, "decode"))


# V-JEPA 2-AC


def test_planning_draws_imagines_and_refits_in_each_round() -> None:
    found = outcome(
        program("vjepa2_ac"),
        inputs={"clip": "now", "poses": "pose", "goal": "there"},
        options={"rounds": 3, "horizon": 2, "samples": 8, "elites": 2},
        wants=frozenset({"plan", "costs"}),
    )
    # Start once; in each round draw, imagine two moves, cost and refit.
    counts = runs(found, "prefill_video_mpc")
    calls = {site: count for site, count in counts.items() if site.isdigit()}
    assert calls == {"0": 1, "1": 3, "2": 6, "3": 3, "4": 3}
    (costs,) = found.emits["costs"]
    assert len(costs) == 3
    assert len(found.emits["plan"]) == 1


# pi0.5


@pytest.mark.parametrize("steps", [1, 10])
def test_actions_take_as_many_updates_as_asked_for(steps: int) -> None:
    found = outcome(
        program("pi05"),
        inputs={"order": "fold it", "state": "still", "base": "a shirt"},
        options={"steps": steps},
    )
    assert runs(found, "action_gen")["1"] == steps
    (actions,) = found.emits["actions"]
    assert len(actions) == 50
