"""A text that is no YAML: what is said of it, in our words and at its place."""

from pathlib import Path
from random import Random

import pytest
import yaml

from mstarc.deployment import read_deployment
from mstarc.deployment.sizes import read_sizes
from mstarc.diagnostics import Diagnostic, DiagnosticSink
from mstarc.source import SourceFile

DEPLOYMENTS = sorted((Path(__file__).parents[3] / "specs/deployments").glob("*.yaml"))
GROUPS = "model: x\nnode_groups:\n"
# The text, what is said, and what stands under the mark.
CASES = [
    (f"{GROUPS}\t- node_names: [a]\n", "a line is indented with a tab", "\t"),
    ("kv_cache:\n  page_size: 1\n\tmax_num_pages: 2\n", "a line is indented with a tab", "\t"),
    ('model: "x\nmax_seq_len: 3\n', "a text in quotes is never closed", '"x'),
    ("model: 'x\nmax_seq_len: 3\n", "a text in quotes is never closed", "'x"),
    ('model: "a\\w"\n', "`\\w` means nothing in double quotes", "\\w"),
    (f"{GROUPS}  - node_names: [a\n    ranks: [0]\n", "a `[` is never closed", "["),
    (f"{GROUPS}  - node_names: [a]\n    ranks: [0\n", "a `[` is never closed", "["),
    ("kv_cache: {page_size: 3\nmax_seq_len: 4\n", "a `{` is never closed", "{"),
    ("kv_cache: {page_size: 3]\n", "`]` closes a `{`", "]"),
    ('k: ["a" "b"]\n', "two items stand next to each other", '"'),
    ("k: ]\n", "a `]` closes nothing", "]"),
    ("k: {a: 1}}\n", "a `}` closes nothing", "}"),
    ("k: [1,,2]\n", "a `,` follows nothing", ","),
    (
        f"{GROUPS}  - node_names: [a]\n   ranks: [0]\n",
        "`ranks` is not indented like what it stands beside",
        "ranks",
    ),
    (
        "model: x\n max_seq_len: 3\n",
        "`max_seq_len` is not indented like what it stands beside",
        "max_seq_len",
    ),
    ("model x\nmax_seq_len: 3\n", "`model x` has no `:`", "model x"),
    ("max_seq_len: 3\nmodel x\n", "`model x` has no `:`", "model x"),
    ("model x\n\n# a remark\nmax_seq_len: 3\n", "`model x` has no `:`", "model x"),
    ("model:x\nmax_seq_len: 3\n", "no space follows the `:` of `model`", ":"),
    (f"{GROUPS}  -node_names: [a]\n   ranks: [0]\n", "no space follows a `-`", "-"),
    ("model: x: y\n", "a value holds a `:`", ":"),
    ("k: - a\n", "a list begins on the line of its key", "-"),
    ("k: 1\n- a\n", "an item of a list stands among keys", "-"),
    ("model: @x\n", "a value cannot begin with `@`", "@"),
    ("model: ? x\n", "a `?` stands before a value", "?"),
    ("model: *x\n", "`*x` repeats what nothing is called", "*x"),
    ("model: &\n", "`&` has no name", "&"),
    ("model: |x\n", "a text of several lines begins on its key's line", "x"),
    ("model: x\n---\nmodel: y\n", "the file holds a second document", "---"),
    ('model: "x" y\n', "a value goes on after its end", "y"),
    ("model: \x07\n", "a character that YAML does not allow", "\x07"),
]


def _read(text: str) -> tuple[Diagnostic, ...]:
    sink = DiagnosticSink()
    read_deployment(SourceFile(path="d.yaml", text=text), sink)
    return sink.diagnostics


@pytest.mark.parametrize(("text", "message", "under"), CASES)
def test_a_malformed_text_is_explained(text: str, message: str, under: str) -> None:
    (found,) = _read(text)
    assert (found.code, found.message) == ("MS0602", message)
    span = found.primary.span
    assert text[span.start : span.end] == under
    assert found.helps


@pytest.mark.parametrize("text", [text for text, _, _ in CASES])
def test_a_file_of_sizes_is_explained_alike(text: str) -> None:
    sink = DiagnosticSink()
    assert read_sizes(SourceFile(path="s.yaml", text=text), sink) is None
    assert [found.message for found in sink.diagnostics] == [_read(text)[0].message]


@pytest.mark.parametrize("text", [text for text, _, _ in CASES])
def test_a_fix_makes_it_yaml_or_another_mistake(text: str) -> None:
    (found,) = _read(text)
    if found.fix is None:
        return
    for edit in found.fix.edits:
        fixed = text[: edit.span.start] + edit.text + text[edit.span.end :]
        assert fixed != text
        again = [finding.message for finding in _read(fixed)]
        assert found.message not in again


@pytest.mark.parametrize("path", DEPLOYMENTS, ids=lambda path: path.stem)
def test_a_broken_deployment_is_never_said_to_be_wrong_in_the_librarys_words(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    chance = Random(path.stem)
    for _ in range(150):
        at = chance.randrange(len(text))
        cut = at + chance.randrange(4)
        broken = text[:at] + chance.choice(("", "\t", "[", '"', ": ", " ", "- ")) + text[cut:]
        try:
            yaml.compose(broken, Loader=yaml.SafeLoader)
        except yaml.YAMLError as error:
            # The library's faster half takes some tabs between words.
            for found in _read(broken)[:1]:
                problem = getattr(error, "problem", None) or "no words"
                assert problem not in found.message + found.primary.text
                assert 0 <= found.primary.span.start <= found.primary.span.end <= len(broken)
