"""The parts of a `.mirtest` file."""

import pytest

from tests.support.mirfile import parse_mirfile, replace_section

FILE = """\
# A title
and why

-- options
placement: 2xcpu
limit: 3

-- before
a
b

-- after
c
"""


def test_parts_are_found() -> None:
    parsed = parse_mirfile(FILE)
    assert parsed.title == "A title"
    assert parsed.options == {"placement": "2xcpu", "limit": "3"}
    assert (parsed.before, parsed.after, parsed.diagnostics) == ("a\nb\n", "c\n", None)


def test_a_section_is_replaced_or_added() -> None:
    assert parse_mirfile(replace_section(FILE, "after", "d\n")).after == "d\n"
    assert replace_section(FILE, "after", "d\n") == FILE.replace("c\n", "d\n")
    assert replace_section(FILE, "before", "x\n") == FILE.replace("a\nb\n", "x\n")
    added = FILE.partition("-- after")[0]
    assert replace_section(added, "after", "c\n") == FILE
    assert replace_section(FILE, "after", "c\n") == FILE


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("-- before\na\n", "its title"),
        ("# T\n\n-- after\na\n", "no section `-- before`"),
        ("# T\n\n-- befor\na\n", "no such section: befor"),
    ],
)
def test_a_file_without_a_part_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_mirfile(text)
