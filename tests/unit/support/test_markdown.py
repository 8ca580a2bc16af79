"""How a page is cut into cases, and what its comments announce."""

from tests.support.markdown import Expectation, blocks, cases, expectations, replace_block

PAGE = """\
# Streams

A stream.

```mstar
one
```

## Strides

```mstar placement=2xcpu
two  # error: [MS0405] skip items
```

```yaml
three
```

```diagnostics
old
text
```

````markdown
```mstar
not a case
```
````
"""


def test_a_case_is_a_spec_with_what_follows_it() -> None:
    first, second = cases(PAGE)
    assert (first.spec.text, first.spec.heading) == ("one\n", "Streams")
    assert first.diagnostics is None
    assert second.spec.heading == "Streams / Strides"
    assert second.spec.settings == {"placement": "2xcpu"}
    assert [block.text for block in second.deployments] == ["three\n"]
    assert second.diagnostics is not None
    assert second.diagnostics.text == "old\ntext\n"


def test_lines_of_a_block_are_lines_of_the_page() -> None:
    lines = PAGE.split("\n")
    for block in blocks(PAGE):
        assert lines[block.first_line - 1] == block.text.split("\n")[0]
        assert lines[block.end_line - 1].startswith("```")


def test_a_block_is_replaced_in_its_place() -> None:
    old = cases(PAGE)[1].diagnostics
    assert old is not None
    changed = replace_block(PAGE, old, "new\n")
    assert changed == PAGE.replace("old\ntext\n", "new\n")


def test_an_empty_block_can_be_filled() -> None:
    page = "```mstar\nx\n```\n```diagnostics\n```\n"
    empty = cases(page)[0].diagnostics
    assert empty is not None
    assert replace_block(page, empty, "a\nb\n") == page[:-4] + "a\nb\n```\n"


def test_a_comment_announces_findings_of_its_line() -> None:
    assert expectations("a\nb # error: [MS0405] [MS0401] skips\nc # warning: [MS1003]\n") == [
        Expectation(line=2, severity="error", code="MS0405", text="skips"),
        Expectation(line=2, severity="error", code="MS0401", text="skips"),
        Expectation(line=3, severity="warning", code="MS1003", text=""),
    ]


def test_a_comment_alone_announces_for_the_next_line_of_text() -> None:
    text = "# error: [MS0101]\n  # error: [MS0102]\n# and a word\nhere\n"
    assert [(found.line, found.code) for found in expectations(text)] == [
        (4, "MS0101"),
        (4, "MS0102"),
    ]
