"""Reading deployment files."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mstarc.deployment import Deployment, parse_devices, read_deployment
from mstarc.diagnostics import DiagnosticSink
from mstarc.source import SourceFile
from tests.support.golden import ROOT

GOOD = "model: m\nnode_groups: [{node_names: [a], ranks: [0]}]\n"
PIECES = [
    "model: m\n",
    "node_groups:\n",
    "- ",
    "node_names: ",
    "[",
    "]",
    "0",
    "ranks: ",
    "\n",
    ": ",
]
FOLDER = ROOT / "specs" / "deployments"


def read(text: str) -> tuple[Deployment | None, DiagnosticSink]:
    sink = DiagnosticSink()
    return read_deployment(SourceFile(path="d/one.yaml", text=text), sink), sink


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_deployments_are_well_formed(path: object) -> None:
    deployment, sink = read((FOLDER / str(path)).read_text())
    assert sink.diagnostics == ()
    assert deployment is not None


def test_values_keep_their_place() -> None:
    text = (
        "model: m  # comment\n"
        "devices: 2xh200\n"
        "max_seq_len: 1_024\n"
        "resources:\n  kv_cache: {max_num_pages: 64, page_size: 32}\n"
        'node_groups:\n- node_names: ["a", b]\n  ranks: [1]\n  graph_walks: [w]\n'
    )
    deployment, sink = read(text)
    assert sink.diagnostics == ()
    assert deployment is not None
    assert (deployment.name, deployment.model.value) == ("one", "m")
    assert deployment.devices == parse_devices("2xH200")
    assert deployment.max_seq_len is not None
    assert deployment.max_seq_len.value == 1024
    assert text[deployment.max_seq_len.span.start : deployment.max_seq_len.span.end] == "1_024"
    assert deployment.max_pages is not None
    assert (deployment.max_pages.value, deployment.rank_count) == (64, 2)
    group = deployment.groups[0]
    assert [name.value for name in group.nodes] == ["a", "b"]
    assert text[group.ranks_span.start : group.ranks_span.end] == "[1]"
    assert group.walks is not None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "MS0604"),
        ("[]", "MS0602"),
        ("model: m", "MS0604"),
        ("model: m\nnode_groups: []", "MS0604"),
        ("model: m\nnode_groups: {}", "MS0605"),
        ("model: 3\nnode_groups: [{node_names: [a], ranks: [0]}]", "MS0605"),
        ("model: m\nnode_groups: [{node_names: a, ranks: [0]}]", "MS0605"),
        ("model: m\nnode_groups: [{node_names: [], ranks: [0]}]", "MS0605"),
        ("model: m\nnode_groups: [{node_names: [a], ranks: 0}]", "MS0605"),
        ("model: m\nnode_groups: [{node_names: [a], ranks: [0x1]}]", "MS0605"),
        (f"{GOOD}model_kwargs: 3", "MS0605"),
        (f"{GOOD}model_kwargs: {{a: {{b: 1}}}}", "MS0605"),
        (f"{GOOD}kv_cache: {{cpu_offload_pages: -1}}", "MS0605"),
        (f"{GOOD}kv_cache: {{flashinfer_backend: fa4}}", "MS0605"),
        (f"{GOOD}kv_cache: {{page_size: 13}}", "MS0605"),
        (f"{GOOD}resources: {{kv_cache: {{page_size: 1024}}}}", "MS0605"),
        (
            "model: m\nkv_cache: {page_size: 0}\nnode_groups: [{node_names: [a], ranks: [0]}]",
            "MS0605",
        ),
        ("model: \x07", "MS0602"),
    ],
)
def test_what_is_not_meant_is_refused(text: str, code: str) -> None:
    deployment, sink = read(text)
    assert deployment is None
    assert [found.code for found in sink.diagnostics] == [code]


@pytest.mark.parametrize(
    ("text", "help_"),
    [
        (f"{GOOD}tp_size: 2\n", "`tp_size` stands in a node group"),
        (f"{GOOD}page_size: 16\n", "`page_size` stands in `kv_cache`"),
        (f"{GOOD}kv_cache: {{devices: cpu}}\n", "`devices` stands in no block: it begins a line"),
        (f"{GOOD}max_seq_len: 4k\n", "write `4096`, or `4000`"),
        (f'{GOOD}max_seq_len: "4096"\n', "write `4096`, without quotes"),
        ("model: m\nnode_groups: [{nodes: [a], ranks: [0]}]", "did you mean `node_names`?"),
    ],
)
def test_one_mistake_is_told_once_with_what_is_meant(text: str, help_: str) -> None:
    _, sink = read(text)
    (found,) = sink.diagnostics
    assert found.helps == (help_,)


@pytest.mark.parametrize(
    ("text", "count", "kind"),
    [("cpu", 1, "cpu"), ("3xcpu", 3, "cpu"), ("2xH200", 2, "H200"), ("8xh100", 8, "H100")],
)
def test_devices_are_a_count_and_a_kind(text: str, count: int, kind: str) -> None:
    devices = parse_devices(text)
    assert devices is not None
    assert (devices.count, devices.kind.name) == (count, kind)


@pytest.mark.parametrize(
    "text", ["", "0xcpu", "2x", "xcpu", "2xQ1", "9999xcpu", "-1xcpu", "2 xcpu"]
)
def test_other_devices_are_unknown(text: str) -> None:
    assert parse_devices(text) is None


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=40) | st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_no_text_raises(text: str) -> None:
    deployment, sink = read(text)
    assert (deployment is None) == sink.has_errors
    for found in sink.diagnostics:
        assert 0 <= found.primary.span.start <= found.primary.span.end <= len(text)
