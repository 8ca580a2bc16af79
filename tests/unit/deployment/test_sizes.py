"""Files of sizes: what they give, and what is refused."""

import pytest

from mstarc.deployment.sizes import SizesFile, read_sizes, refuse_unknown_nodes
from mstarc.diagnostics import DiagnosticSink
from mstarc.source import SourceFile
from tests.support.golden import ROOT

TINY = ROOT / "specs" / "tiny"


def read(text: str, path: str = "sizes.yaml") -> tuple[SizesFile | None, DiagnosticSink]:
    sink = DiagnosticSink()
    return read_sizes(SourceFile(path=path, text=text), sink), sink


@pytest.mark.parametrize("path", sorted(TINY.glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_sizes_are_well_formed(path: str) -> None:
    sizes, sink = read((TINY / path).read_text())
    assert sink.diagnostics == ()
    assert sizes is not None
    assert sizes.weights


def test_values_keep_their_kind_and_place() -> None:
    text = "config:\n  eos: 2\n  ends: [1, 2]\nweights:\n  lm: {source: random, seed: 3}\n"
    sizes, _ = read(text)
    assert sizes is not None
    assert sizes.config == {"eos": 2, "ends": (1, 2)}
    span = sizes.spans["ends"]
    assert text[span.start : span.end] == "[1, 2]"
    (weights,) = sizes.weights
    assert (weights.node, weights.source, weights.seed, weights.config) == ("lm", "random", 3, {})


def test_a_config_json_is_read_as_json() -> None:
    sizes, _ = read('{"rms_norm_eps": 1e-05, "rope": {"theta": 1}}', "config.json")
    assert sizes is not None
    assert sizes.checkpoint == {"rms_norm_eps": 1e-05, "rope": {"theta": 1}}
    assert sizes.config == {}


@pytest.mark.parametrize(
    ("text", "path", "message", "under"),
    [
        ("a: [", "s.yaml", "a `[` is never closed", "["),
        ("a: \x00", "s.yaml", "a character that YAML does not allow", "\x00"),
        ("wieghts: {}", "s.yaml", "a file of sizes has no key `wieghts`", "wieghts"),
        ("config: 3", "s.yaml", "`config` is written as keys and values", "3"),
        ("config: {a: {b: 1}}", "s.yaml", "a config value is a number", "{b: 1}"),
        ("weights: {lm: {sead: 1}}", "s.yaml", "the weights of `lm` has no key", "sead"),
        ("weights: {lm: {seed: x}}", "s.yaml", "`seed` is a whole number", "x"),
        ("config: {a: 1, a: 2}", "s.yaml", "`a` is given twice", "a"),
        (
            "config: {a: !!python/object:os.x 1}",
            "s.yaml",
            "`!!python/object:os.x` means nothing here",
            "!!python/object:os.x",
        ),
        ("[1]", "config.json", "the file is no checkpoint's config.json", "["),
        ("{", "config.json", "the file is no checkpoint's config.json", ""),
    ],
)
def test_what_is_wrong_is_said_at_its_place(text: str, path: str, message: str, under: str) -> None:
    sizes, sink = read(text, path)
    assert sizes is None
    (found,) = sink.diagnostics
    assert found.code == "MS0009"
    assert found.message.startswith(message)
    span = found.primary.span
    assert text[span.start : span.end] == under


def test_a_node_that_the_spec_lacks_is_reported_with_the_nearest() -> None:
    sizes, sink = read("weights: {codek: {seed: 1}}")
    assert sizes is not None
    refuse_unknown_nodes(sizes, ["lm", "codec"], sink)
    (found,) = sink.diagnostics
    assert found.helps == ("did you mean `codec`?",)
