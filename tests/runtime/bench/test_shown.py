"""What people see: a table without colour where nobody looks at a terminal, a picture, ratios."""

import io
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

from mstarc_runtime.bench.__main__ import machine_facts, ratios
from mstarc_runtime.bench.figures import figures_of
from mstarc_runtime.bench.picture import picture_of
from mstarc_runtime.bench.record import Record
from mstarc_runtime.bench.table import print_table


def result(*speeds: float) -> dict[str, Any]:
    """Targets that make a second of sound in so many seconds, under two loads."""
    targets = []
    for number, speed in enumerate(speeds):
        record = Record(number=0, due_s=0.0, begun_s=0.0)
        record.heard(speed / 2, 0.5)
        record.heard(speed, 0.5)
        record.ended_s = speed
        figures = figures_of([record], slo={"rtf": 1.0}, counted_tokens=84)
        loads = [{"load": load, "figures": figures} for load in ("1 at once", "2/s")]
        fallback = {"nodes": ["lm"], "walk": "a & b", "bs": 1, "reason": "why", "runs": 7}
        facts = {
            "ready_s": 12.3,
            "start_s": {"weights": 1.0, "capture": 2.0},
            "graph_runs": 9,
            "eager_fallbacks": [fallback],
        }
        targets.append({"name": f"<t{number}>", "facts": facts, "loads": loads})
    return {
        "targets": targets,
        "machine": {"processor": "P", "cores": 2},
        "when": "now",
        "ratios": ratios(targets),
    }


def table(of: dict[str, Any]) -> str:
    stream = io.StringIO()
    print_table(of, stream)
    return stream.getvalue()


def test_a_table_has_a_row_a_load_and_says_what_ran_call_by_call() -> None:
    text = table(result(2.0))
    assert "\x1b" not in text
    (row,) = (line for line in text.splitlines() if "1 at once" in line)
    for cell in ("0.5", "1,000 / 1,000 ms", "2 / 2", "42", "0%"):
        assert cell in row
    assert "ready after 12.3 s (weights 1.0 s, capture 2.0 s)" in text
    assert "a & b (lm) at batch 1: 7 times: why" in text
    assert "ratios" not in text


def test_of_another_server_only_its_start_is_known() -> None:
    found = result(2.0)
    found["targets"][0]["facts"] = {"url": "http://a", "ready_s": 91.0, "start_s": {}}
    assert "ready after 91.0 s\n" in table(found).replace(" \n", "\n")


def test_targets_are_set_against_the_first_one() -> None:
    found = result(2.0, 1.0)
    assert [(entry["target"], entry["against"], entry["load"]) for entry in found["ratios"]] == [
        ("<t1>", "<t0>", "1 at once"),
        ("<t1>", "<t0>", "2/s"),
    ]
    figures = found["ratios"][0]["ratios"]
    assert figures["sound_s_per_s"] == pytest.approx(2.0)
    assert figures["first_sound_s.p50"] == pytest.approx(0.5)
    assert "2.00×" in table(found)


def test_a_picture_has_a_bar_a_target_and_load_and_is_valid_xml() -> None:
    root = ElementTree.fromstring(picture_of(result(2.0, 1.0)))
    titles = [element.text for element in root.iter("{http://www.w3.org/2000/svg}title")]
    # audio-s/s, tokens/s, first sound, real-time factor and goodput; two loads, two targets.
    assert len(titles) == 5 * 2 * 2
    assert "<t1>, 2/s: 1" in titles


def test_the_machine_is_described() -> None:
    facts = machine_facts()
    assert facts["processor"]
    assert facts["packages"]["numpy"]
