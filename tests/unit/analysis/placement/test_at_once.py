"""Copies share the requests that there are."""

from dataclasses import replace

from mstarc.analysis.placement.at_once import layouts_at_once
from mstarc.analysis.placement.model import Model
from mstarc.analysis.placement.problem import Option, Piece, Problem, Supply

WHOLE, HALVES = Option(0), Option(0, 2)
WEIGHTS_S, ROW_S, SUM_S = 1.0, 0.01, 0.002


def model(requests: int, capacity: int = 100) -> Model:
    """A node that reads its weights once a step, and may be cut in two; 1 byte a request."""
    step_s = WEIGHTS_S + ROW_S * requests
    seconds = {WHOLE: step_s / requests, HALVES: (step_s / 2 + SUM_S * requests) / requests}
    piece = Piece(
        name="lm",
        node="lm",
        machine="speak",
        busy_s=seconds,
        alone_s={WHOLE: WEIGHTS_S, HALVES: WEIGHTS_S / 2 + SUM_S},
        holds=("lm",),
    )
    problem = Problem(
        pieces=(piece,),
        edges=(),
        bytes_of={("lm", WHOLE): requests, ("lm", HALVES): requests},
        supply=(Supply(name="H200", count=2, capacity_bytes=capacity),),
    )
    return Model(problem=problem, flow=("lm",))


def test_few_requests_go_together_over_all_devices() -> None:
    found = layouts_at_once(model, 4, "throughput", 2)
    assert found is not None
    best, next_best = found.layouts
    assert best.homes["lm"].option == HALVES
    assert best.copies == (1,)
    assert found.requests == 4
    # Each of two copies reads all weights for two requests.
    assert next_best.copies == (2,)
    assert next_best.period_s == (WEIGHTS_S + ROW_S * 2) / 2 / 2
    assert best.period_s < next_best.period_s


def test_many_requests_are_shared_by_copies() -> None:
    found = layouts_at_once(lambda requests: model(requests, 1000), 400, "throughput", 1)
    assert found is not None
    (best,) = found.layouts
    assert best.homes["lm"].option == WHOLE
    assert best.copies == (2,)
    assert found.requests == 200


def test_requests_without_room_on_one_copy_are_shared_by_two() -> None:
    found = layouts_at_once(lambda requests: model(requests, 3), 6, "throughput", 4)
    assert found is not None
    assert [layout.copies for layout in found.layouts] == [(2,)]
    assert layouts_at_once(lambda requests: model(requests, 2), 6, "throughput", 4) is None


def test_nothing_to_place_has_no_layout() -> None:
    empty = replace(model(1).problem, pieces=())
    found = layouts_at_once(lambda requests: Model(problem=empty, flow=()), 4, "throughput", 1)
    assert found is None
