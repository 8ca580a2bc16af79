"""Text and tree agree, and no text breaks the parser."""

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mstarc.diagnostics import CATALOG, DiagnosticSink
from mstarc.source import SourceFile
from mstarc.syntax import ast
from mstarc.syntax.parser import parse
from mstarc.syntax.printer import print_spec
from mstarc.syntax.tokens import read_tokens
from tests.property.spec_text import specs
from tests.support.examples import examples

SAMPLES = sorted((Path(__file__).parents[2] / "specs").glob("*.mstar"))
SAMPLE_TEXTS = [path.read_text(encoding="utf-8") for path in SAMPLES]


def parsed(text: str) -> tuple[ast.Spec | None, DiagnosticSink, SourceFile]:
    source = SourceFile(path="spec.mstar", text=text)
    sink = DiagnosticSink()
    return parse(source, sink), sink, source


def check_any_text(text: str) -> None:
    """Nothing is raised, and whatever is reported or built lies inside the text."""
    spec, sink, source = parsed(text)
    spans = [ast_node.span for ast_node in ast.descendants(spec)] if spec is not None else []
    for found in sink.diagnostics:
        assert found.code in CATALOG
        assert found.message
        spans += [found.primary.span, *(label.span for label in found.labels)]
        spans += [edit.span for edit in found.fix.edits] if found.fix else []
    assert spec is not None or sink.has_errors
    for span in spans:
        assert 0 <= span.start <= span.end <= len(text)
    if spec is not None and not sink.has_errors:
        again, sink, _ = parsed(print_spec(spec, source))
        assert again is not None
        assert not sink.diagnostics
        assert ast.same_tree(spec, again)


@settings(max_examples=examples(60), deadline=None)
@given(specs)
def test_what_is_printed_is_parsed_to_the_same(spec: ast.Spec) -> None:
    text = print_spec(spec)
    again, sink, source = parsed(text)
    assert not sink.diagnostics, text
    assert again is not None
    assert ast.same_tree(spec, again), text
    canonical = print_spec(again, source)
    third, _, source = parsed(canonical)
    assert third is not None
    assert ast.same_tree(spec, third), canonical
    assert print_spec(third, source) == canonical


@settings(max_examples=examples(100), deadline=None)
@given(st.text(max_size=200))
@example("mstar 1\nmodel m\nlet a = " + "(" * 5000)
@example("mstar 1\nmodel m\nlet a = " + "-" * 5000 + "1")
@example("mstar 1\nmodel m\nlet a = " + "1 + " * 5000 + "1")
@example("mstar 1\nmodel m\nlet a = " + "not " * 5000 + "true")
@example("mstar 1\nmodel m\nmachine m { state s { " + "when a { } else " * 2000 + "{ } } }")
@example("mstar 1\nmodel m\nlet a = b" + ".c" * 5000)
@example("mstar 1\nmodel m\nlet a = " + "9" * 10000)
@example("}" * 3000 + "{" * 3000)
@example("mstar " + "9" * 5000)
@example("\x00\ud800\u2028")
def test_arbitrary_text_is_reported_and_never_raises(text: str) -> None:
    check_any_text(text)


WORDS = """
mstar 1 model config request node stream walk machine state op in out opt loop max while carry send
emit <- -> ( ) { } [ ] : , = . + - * / // .. == if else when on as chunk until a b token "text" 3
0.5 none true # ## ;
"""


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.sampled_from([*WORDS.split(), "\n"]), max_size=60))
def test_any_order_of_words_is_reported_and_never_raises(words: list[str]) -> None:
    check_any_text("mstar 1\nmodel m\n" + " ".join(words))


@settings(max_examples=examples(60), deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(SAMPLE_TEXTS))
def test_broken_specs_are_reported_and_never_raise(chance: random.Random, text: str) -> None:
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(text))
        size = chance.choice((1, 1, 3, 20))
        change = chance.choice(("drop", "swap", "insert", "repeat"))
        piece = text[at : at + size]
        if change == "drop":
            text = text[:at] + text[at + size :]
        elif change == "swap":
            text = text[:at] + piece[::-1] + text[at + size :]
        elif change == "insert":
            text = text[:at] + chance.choice('{}()[]:,="#;\n') + text[at:]
        else:
            text = text[:at] + piece + text[at:]
    check_any_text(text)


COMMENTS = ("# plain", "## about it", "#", "##", "#: odd")


# A draw for every line of a shipped spec is what is wanted here, not too much of it.
@settings(
    max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.large_base_example]
)
@given(st.randoms(use_true_random=False), st.sampled_from(SAMPLE_TEXTS))
def test_formatting_keeps_every_comment(chance: random.Random, text: str) -> None:
    lines = text.split("\n")
    for number in range(3, len(lines)):
        if chance.random() < 0.2:
            lines[number] += f"  {chance.choice(COMMENTS)} {number}"
        if chance.random() < 0.2:
            lines[number] += f"\n{chance.choice(COMMENTS)} {number}b"
        if chance.random() < 0.1:
            lines[number] += "\n\n\n"
    spec, sink, source = parsed("\n".join(lines))
    assert spec is not None
    assert not sink.diagnostics
    printed = print_spec(spec, source)
    again, sink, source_again = parsed(printed)
    assert again is not None
    assert not sink.diagnostics
    assert print_spec(again, source_again) == printed
    assert comments_of(printed) == comments_of(source.text)


def comments_of(text: str) -> list[str]:
    found = []
    for line in text.split("\n"):
        outside = line.split('"')[::2]
        if "#" in "".join(outside):
            # What is moved to a line of its own must not become documentation.
            words = line[line.index("#") :].lstrip("#").split()
            found.append(" ".join(words))
    return sorted(found)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_shipped_specs_are_in_their_canonical_form(path: Path) -> None:
    spec, sink, source = parsed(path.read_text(encoding="utf-8"))
    assert spec is not None
    assert not sink.diagnostics
    assert print_spec(spec, source) == source.text


def test_comments_between_any_two_tokens_are_kept() -> None:
    text = min(SAMPLE_TEXTS, key=len)
    spec, _, source = parsed(text)
    assert spec is not None
    tokens = read_tokens(source, DiagnosticSink()).tokens
    for number in range(3, len(tokens) - 1, 7):
        for comment in (f"  # {number}\n", f"\n## {number}\n"):
            at = tokens[number].start
            changed = text[:at] + comment + text[at:]
            spec, sink, source = parsed(changed)
            assert spec is not None
            assert not sink.diagnostics
            printed = print_spec(spec, source)
            again, _, source_again = parsed(printed)
            assert again is not None
            assert ast.same_tree(spec, again), printed
            assert print_spec(again, source_again) == printed
            assert comments_of(printed) == comments_of(changed)
