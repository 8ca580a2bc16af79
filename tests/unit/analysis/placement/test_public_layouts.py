"""The best layout is never worse, by its own objective, than one that people wrote by hand."""

import pytest

from mstarc.analysis.placement.problem import OBJECTIVES
from tests.support.public_layouts import FOLDER, compare, public_layouts, read_public

LAYOUTS = list(public_layouts())


@pytest.mark.skipif(not LAYOUTS, reason=f"no public layouts in {FOLDER.name}: set PUBLIC_LAYOUTS")
def test_no_layout_by_hand_is_better_than_the_one_that_is_found() -> None:
    compared = 0
    for name, spec, deployment in LAYOUTS:
        public = read_public(name, spec, deployment)
        if isinstance(public, str):
            continue  # refused files are counted where deployments are tested
        for objective in OBJECTIVES:
            found = compare(public, objective)
            print(name, found.devices, objective, found.by_hand, found.best)
            assert found.by_hand is None or found.best <= found.by_hand, (name, objective)
            compared += 1
    assert compared >= 60
