"""Work spread over processes gives what one process gives, errors included."""

import os

import pytest

from mstarc.cli.in_processes import mapped

WORDS = [f"word {number}" * (number % 5 + 1) for number in range(9)]


@pytest.mark.parametrize("processes", [1, 2, 3, 20])
def test_results_come_in_order(processes: int) -> None:
    made = mapped(lambda word: word.upper(), WORDS, [len(w) for w in WORDS], processes=processes)
    assert made == [word.upper() for word in WORDS]


def test_children_do_their_part() -> None:
    made = mapped(lambda _: os.getpid(), WORDS, [len(w) for w in WORDS], processes=3)
    assert len(set(made)) == 3


def test_an_error_is_raised_as_it_is() -> None:
    def fails(word: str) -> str:
        if word == WORDS[7]:
            raise LookupError("no such word")
        return word

    for processes in (1, 2, 3):
        with pytest.raises(LookupError, match="no such word"):
            mapped(fails, WORDS, [1.0] * len(WORDS), processes=processes)


def test_a_child_that_dies_leaves_its_part_to_the_parent() -> None:
    parent = os.getpid()

    def dies(word: str) -> str:
        if os.getpid() != parent:
            os._exit(3)
        return word

    assert mapped(dies, WORDS, [1.0] * len(WORDS), processes=3) == WORDS
