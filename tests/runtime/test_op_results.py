"""Results of ops are held against signatures: how many, dtypes, dims, and free dims by name."""

from typing import Any

import pytest
import torch
from torch import Tensor

from mstarc_runtime.engine.op_results import OpResults, WrongResult
from mstarc_runtime.plan_api import Maybe, Signature

MASK = torch.ones(2, dtype=torch.bool)


def results(
    takes: tuple[str, ...],
    gives: tuple[str, ...],
    *,
    packs: bool = False,
    computed: torch.dtype = torch.float32,
) -> OpResults:
    return OpResults(
        "codec",
        "decode",
        Signature(takes=takes, gives=gives),
        computed=computed,
        packs=packs,
    )


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(shape, dtype=dtype)


@pytest.mark.parametrize(
    ("gives", "given"),
    [
        (("pcm: f32[8]",), zeros(2, 8)),
        (("token: i64",), zeros(2, dtype=torch.int64)),
        # Nodes compute in another type here than in the spec.
        (("emb: bf16[4]", "token: i64"), (zeros(2, 4), zeros(2, dtype=torch.int64))),
        (("x: f32[4] or none",), None),
        (("x: f32[4] or none",), Maybe(zeros(2, 4), MASK)),
        (("x: f32[?, 4]",), zeros(2, 9, 4)),
        (("x: f32[$L, 4]",), zeros(2, 9, 4)),
        ((), None),
    ],
)
def test_what_is_declared_may_be_returned(gives: tuple[str, ...], given: Any) -> None:
    results((), gives).check(given, ())


@pytest.mark.parametrize(
    ("gives", "given", "said"),
    [
        (("pcm: f32[8]",), zeros(2, 4), "another shape"),
        (("pcm: f32[8]",), zeros(8), "another shape"),
        (("pcm: f32[8]",), zeros(2, 1, 8), "another shape"),
        (("pcm: f32[8]",), zeros(2, 8, dtype=torch.float64), "another dtype"),
        (("pcm: f32[8]",), zeros(2, 4, dtype=torch.int64), "another shape and dtype"),
        (("pcm: f32[8]",), (zeros(2, 8), zeros(2, 8)), "2 values, and it has 1 result"),
        (("pcm: f32[8]",), [zeros(8)], "1 values as `pcm`"),
        (("pcm: f32[8]",), None, "nothing as `pcm`"),
        (("a: f32[8]", "b: f32[8]"), zeros(2, 8), "`Tensor`, and it has 2 results"),
        ((), zeros(2, 8), "`Tensor`, and it has none"),
        (("x: f32[4] or none",), Maybe(zeros(2, 5), MASK), "another shape"),
    ],
)
def test_what_is_not_declared_is_named(gives: tuple[str, ...], given: Any, said: str) -> None:
    with pytest.raises(WrongResult) as raised:
        results((), gives).check(given, ())
    assert str(raised.value).startswith("`codec.decode` returned ")
    assert said in str(raised.value)


def test_what_was_declared_and_returned_is_said() -> None:
    with pytest.raises(WrongResult) as raised:
        results(("f32[P, 3]",), ("emb: bf16[P + 2, 64]",)).check(zeros(2, 5, 64), (zeros(2, 5, 3),))
    assert raised.value.notes == (
        "declared: `emb: bf16[P + 2, 64]`, here f32[batch, P + 2 = 7, 64]",
        "returned: f32[2, 5, 64]",
    )


def test_free_dims_are_those_of_the_arguments() -> None:
    checked = results(("f32[P, 3]",), ("emb: f32[(P // 2) * 2, 4]",))
    checked.check(zeros(2, 6, 4), (zeros(2, 7, 3),))
    with pytest.raises(WrongResult):
        checked.check(zeros(2, 7, 4), (zeros(2, 7, 3),))


def test_what_a_node_computes_in_may_stand_for_float32() -> None:
    half = torch.bfloat16
    checked = results((), ("a: f32[4]", "b: bf16[4]"), computed=half)
    checked.check((zeros(2, 4), zeros(2, 4, dtype=half)), ())
    checked.check((zeros(2, 4, dtype=half), zeros(2, 4, dtype=half)), ())
    with pytest.raises(WrongResult, match="`b` of another dtype"):
        checked.check((zeros(2, 4), zeros(2, 4)), ())


def test_rows_of_all_requests_are_one_dim_where_free_dims_are_packed() -> None:
    checked = results(("f32[T, 4]",), ("h: f32[T, 4]", "token: i64"), packs=True)
    checked.check((zeros(17, 4), zeros(2, dtype=torch.int64)), (zeros(17, 4),))
    with pytest.raises(WrongResult, match="`h` of another shape"):
        checked.check((zeros(17, 5), zeros(2, dtype=torch.int64)), (zeros(17, 4),))


def test_calls_on_arrays_of_contexts_have_a_dim_more() -> None:
    checked = results(("f32[4]",), ("h: f32[4]",), packs=True)
    checked.check(zeros(2, 3, 4), (zeros(2, 3, 4),), leading=2)
    with pytest.raises(WrongResult):
        checked.check(zeros(2, 4), (zeros(2, 3, 4),), leading=2)


def test_what_is_right_is_looked_at_once() -> None:
    checked = results((), ("pcm: f32[8]",))
    looks = []
    checked._check_part = lambda *given: looks.append(given)  # type: ignore[method-assign]
    for rows in (2, 2, 3, 2):
        checked.check(zeros(rows, 8), ())
    assert len(looks) == 2


def test_a_piece_of_a_prompt_returns_what_nobody_reads() -> None:
    class Context:
        is_partial = True

    method = results((), ("token: i64",), packs=True).checked(lambda context: None)
    method(Context())
    Context.is_partial = False
    with pytest.raises(WrongResult):
        method(Context())
