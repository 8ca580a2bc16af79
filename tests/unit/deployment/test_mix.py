"""Mixes: every key is read, every mistake is said where it stands."""

import pytest

from mstarc.deployment.mix import Range, RequestKind, read_mix
from mstarc.diagnostics import DiagnosticSink
from mstarc.source import SourceFile

WHOLE = """requests:
  - share: 3
    rows: 40..200
    options: {max_tokens: 400, voice: tara, speak: true}
    passes: {decode: 120..360}
    parts: {text: 1, image: 2}
    wants: [reply]
  - rows: 1500
"""


def read(text: str) -> tuple[tuple[RequestKind, ...] | None, list[tuple[str, str]]]:
    sink = DiagnosticSink()
    file = SourceFile(path="mix.yaml", text=text)
    kinds = read_mix(file, sink)
    found = [(d.message, text[d.primary.span.start : d.primary.span.end]) for d in sink.diagnostics]
    assert all(d.code == "MS0640" for d in sink.diagnostics)
    return kinds, found


def test_every_key_is_read() -> None:
    kinds, found = read(WHOLE)
    assert not found
    assert kinds == (
        RequestKind(
            share=3.0,
            rows=Range(40, 200),
            options={"max_tokens": 400.0, "voice": "tara", "speak": True},
            passes={"decode": Range(120, 360)},
            parts={"text": 1, "image": 2},
            wants=("reply",),
        ),
        RequestKind(rows=Range(1500, 1500)),
    )


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("", "a mix has the key `requests` and no other", ""),
        ("requests: 3\n", "`requests` is a list of kinds of requests", "3"),
        ("requests:\n  - {row: 4}\n", "a kind of requests has no key `row`", "4"),
        ("requests:\n  - {rows: few}\n", "`rows` is a whole number or `low..high`", "few"),
        (
            "requests:\n  - {rows: 9..4}\n",
            "`rows` goes from a lower number to a higher one",
            "9..4",
        ),
        ("requests:\n  - {share: 0}\n", "`share` is a number above zero", "0"),
        ("requests:\n  - {wants: reply}\n", "`wants` is a list of names", "reply"),
        ("requests:\n  - {passes: 4}\n", "`passes` has keys and values", "4"),
        ("requests:\n  - 4\n", "a kind of requests has keys and values", "4"),
    ],
)
def test_mistakes_are_said_where_they_stand(text: str, message: str, place: str) -> None:
    kinds, found = read(text)
    assert kinds is None
    assert found == [(message, place)]


def test_a_text_that_is_no_yaml_is_refused() -> None:
    kinds, found = read("requests: [\n")
    assert kinds is None
    assert len(found) == 1
