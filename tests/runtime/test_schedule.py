"""The decisions of the scheduler, as functions over counts."""

from hypothesis import given
from hypothesis import strategies as st

from mstarc_schedule.admission import decide
from mstarc_schedule.batching import BatchPolicy, bucket_of, choose, most_rows, take_packed

FREE = BatchPolicy(deterministic=False)
BUCKETS = (1, 2, 4, 8, 16)


@given(st.lists(st.integers(0, 100), min_size=1))
def test_the_station_that_waits_longest_runs(last_turns: list[int]) -> None:
    assert last_turns[choose(last_turns)] == min(last_turns)


@given(st.integers(1, 16))
def test_captured_rows_get_the_smallest_bucket_that_holds_them(count: int) -> None:
    bucket = bucket_of(FREE, "one", BUCKETS, count, captured=True)
    assert bucket in BUCKETS
    assert bucket >= count
    assert all(smaller < count for smaller in BUCKETS if smaller < bucket)


@given(st.integers(1, 8), st.sampled_from(["one", "packed", "shaped"]), st.booleans())
def test_a_deterministic_step_always_has_the_same_rows(
    tile_rows: int, rows: str, captured: bool
) -> None:
    policy = BatchPolicy(deterministic=True, tile_rows=tile_rows)
    most = most_rows(policy, rows, BUCKETS, max_requests=64)
    wanted = tile_rows if rows == "one" else 1
    assert most == wanted
    for count in range(1, most + 1):
        assert bucket_of(policy, rows, BUCKETS, count, captured=captured) == wanted


@given(st.lists(st.integers(1, 3000), min_size=1), st.integers(1, 8))
def test_packed_requests_keep_their_order_and_the_budget(tokens: list[int], most: int) -> None:
    count = take_packed(FREE, tokens, most)
    assert 1 <= count <= min(most, len(tokens))
    assert count == 1 or sum(tokens[:count]) <= FREE.token_budget
    if count < min(most, len(tokens)):
        assert sum(tokens[: count + 1]) > FREE.token_budget


def test_who_waits_is_not_overtaken() -> None:
    assert decide(free_slots=3, waiting=0, most_waiting=8) == "admit"
    assert decide(free_slots=3, waiting=1, most_waiting=8) == "wait"
    assert decide(free_slots=0, waiting=0, most_waiting=8) == "wait"
    assert decide(free_slots=0, waiting=8, most_waiting=8) == "refuse"
