"""`generated/` is what the shipped specs compile to, byte for byte."""

import pytest

from tests.support.generated import SHIPPED, Shipped, drift, orphans


@pytest.mark.parametrize("shipped", SHIPPED, ids=lambda shipped: shipped.name)
def test_committed_plan_is_as_compiled(shipped: Shipped) -> None:
    found = list(drift(shipped))
    assert not found, "\n\n".join(found)


def test_every_committed_plan_is_a_shipped_one() -> None:
    assert orphans() == []
