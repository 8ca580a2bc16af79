"""`docs/models.md` says of every spec that it compiles, and it does."""

import re
from collections.abc import Iterator

import pytest

from mstarc import driver
from mstarc.diagnostics import CATALOG
from mstarc.options import CompileOptions
from mstarc.source import SourceFile
from tests.support.golden import ROOT
from tests.support.shipped_specs import SPECS_BY_NAME

_ROW = re.compile(r"\| (?P<what>[^|]+) \| \[(?P<name>\w+)\]\(\.\./specs/(?P<file>\w+)\.mstar\) \| ")


def rows() -> Iterator[tuple[str, str]]:
    """Each spec that the page lists, and what it says of its plan."""
    for line in (ROOT / "docs" / "models.md").read_text(encoding="utf-8").splitlines():
        found = _ROW.match(line)
        if found is not None:
            assert found["name"] == found["file"]
            yield found["name"], line[found.end() :].removesuffix(" |").replace(r"\|", "|")


def test_every_spec_has_a_row() -> None:
    assert sorted(name for name, _ in rows()) == sorted(SPECS_BY_NAME)


@pytest.mark.parametrize(("name", "said"), rows(), ids=lambda value: value.split()[0])
def test_row_says_what_compiles(name: str, said: str) -> None:
    spec = SPECS_BY_NAME[name]
    nodes = re.findall(r"^node (\w+)", spec.source.text, re.MULTILINE)
    model = re.search(r"^model (\w+)", spec.source.text, re.MULTILINE)
    assert model is not None
    # One small request on a large device: only constructs may stand in the way.
    deployment = SourceFile(
        path="deployment.yaml",
        text=f"model: {model[1]}\ndevices: 1xH200\nmax_seq_len: 16\nmax_concurrent_requests: 1\n"
        f"node_groups:\n  - node_names: [{', '.join(nodes)}]\n    ranks: [0]\n",
    )
    outcome = driver.compile_spec(
        spec.source, CompileOptions(sizes=spec.sizes, deployments=(deployment,))
    )
    errors = [found for found in outcome.diagnostics if CATALOG[found.code].severity == "error"]
    assert not errors
    assert said == "yes"
