"""What records say together: each figure by an example that can be reckoned by hand."""

import pytest

from mstarc_runtime.bench.figures import figures_of, in_short, is_good
from mstarc_runtime.bench.record import Record


def heard(due_s: float, *chunks: tuple[float, float], begun_s: float | None = None) -> Record:
    """A request that is over with its last chunk."""
    record = Record(number=0, due_s=due_s, begun_s=due_s if begun_s is None else begun_s)
    for when, length in chunks:
        record.heard(when, length)
    record.ended_s = chunks[-1][0]
    return record


def test_times_of_a_request_are_from_when_it_was_due() -> None:
    record = heard(1.0, (1.5, 0.5), (2.5, 0.5), begun_s=1.2)
    assert record.first_sound_s == 0.5
    assert record.first_s == 0.5
    assert record.first_text_s is None
    assert record.latency_s == 1.5
    assert record.gaps_s == [1.0]


def test_the_real_time_factor_is_of_the_work_and_not_of_the_wait() -> None:
    assert heard(0.0, (2.0, 1.0), (3.0, 1.0), begun_s=1.0).real_time_factor == 1.0


def test_a_listener_waits_where_sound_comes_later_than_it_was_needed() -> None:
    # Heard from 1.0 to 1.5; the next comes at 1.4 (in time), the last at 2.25 instead of 2.0.
    assert heard(0.0, (1.0, 0.5), (1.4, 0.5), (2.25, 0.5)).underruns_s == [0.25]
    assert heard(0.0, (1.0, 0.5), (1.4, 0.5)).underruns_s == []


def test_what_requests_made_is_set_against_the_time_of_all() -> None:
    records = [heard(0.0, (1.0, 2.0)), heard(0.0, (4.0, 2.0))]
    figures = figures_of(records, slo={}, counted_tokens=100)
    assert figures["wall_s"] == 4.0
    assert figures["requests_per_s"] == 0.5
    assert figures["sound_s_per_s"] == 1.0
    assert figures["tokens_per_s"] == 25.0
    expected = {"p50": 2.5, "p90": 3.7, "p99": 3.97, "max": 4.0}
    assert figures["first_sound_s"] == pytest.approx(expected)
    assert figures["gap_s"] is None


def test_a_request_that_failed_is_counted_and_its_times_are_not() -> None:
    failed = Record(number=1, due_s=0.0, begun_s=0.0, ended_s=10.0, error="MS9304: no")
    figures = figures_of([heard(0.0, (1.0, 1.0)), failed], slo={"rtf": 1.0})
    assert (figures["requests"], figures["failed"]) == (2, 1)
    assert figures["latency_s"]["max"] == 1.0
    assert figures["goodput"] == {"requests": 1, "share": 0.5, "requests_per_s": 0.1}


@pytest.mark.parametrize(
    ("slo", "good"),
    [
        ({}, True),
        ({"first_sound": 0.5, "rtf": 0.5}, True),
        ({"first_sound": 0.4}, False),
        ({"gap": 0.4}, False),
        ({"first_text": 9.0}, False),  # it made none
    ],
)
def test_a_good_request_keeps_to_every_bound(slo: dict[str, float], good: bool) -> None:
    assert is_good(heard(0.0, (0.5, 1.0), (1.0, 1.0)), slo) == good


def test_tokens_that_records_count_come_before_others() -> None:
    record = Record(number=0, due_s=0.0, begun_s=0.0, ended_s=1.0, tokens=3)
    assert figures_of([record], slo={}, counted_tokens=100)["tokens"] == 3
    assert figures_of([heard(0.0, (1.0, 1.0))], slo={})["tokens_per_s"] is None


def test_a_load_in_short_names_what_it_made() -> None:
    figures = figures_of([heard(0.0, (0.5, 2.0), (1.0, 2.0))], slo={})
    said = in_short(figures)
    assert said == "1 requests, 4 audio-s/s, RTF 0.25, first sound 500 ms"
    assert in_short(figures_of([], slo={})) == "0 requests"
