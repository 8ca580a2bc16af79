"""The LALR(1) machine: a stack of states that takes terminals and makes values.

It knows the tables and nothing of the language: `parser` feeds it, `build` makes the values.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

from mstarc.syntax.tables import END, RuleShape, Tables


class ValueBuilder(Protocol):
    """Makes the value of a rule; `build` has the one for syntax trees."""

    def callback(self, name: str) -> Callable[..., Any]:
        """The function for the rule or alias `name`: it gets start, end and the children."""
        ...


Maker: TypeAlias = "Callable[[Automaton, int], Any]"


class Automaton:
    """A parse under way. Entry 0 of the parallel lists is the ground."""

    def __init__(self, tables: Tables, builder: ValueBuilder) -> None:
        self.tables = tables
        self.rows = tables.rows
        self.states: list[int] = [0]
        self.values: list[Any] = [None]
        self.starts: list[int] = [0]
        self.ends: list[int] = [0]
        self.braces: list[int] = [0]
        """How many braces are open up to and with an entry."""
        # The last question and its answer: the parser asks of a word whether it is one, and again
        # when it takes it. Whatever changes the states forgets it.
        self._asked: str | None = None
        self._answer = False
        self._builder = builder
        # Made as rules are met: a text uses less than half of them.
        self._makers: dict[int, Maker | None] = {}

    def takes(self, terminal: str, depth: int | None = None) -> bool:
        """Whether `terminal` can come next, with the first `depth` entries (all, if not given)."""
        if depth is not None:
            return takes(self.tables, self.states[:depth], terminal)
        if terminal != self._asked:
            self._asked, self._answer = terminal, takes(self.tables, self.states, terminal)
        return self._answer

    def taken(self) -> tuple[str, ...]:
        """All terminals that can come next, in alphabetical order."""
        row = self.rows[self.states[-1]]
        return tuple(sorted(t for t in row if t == t.upper() and self.takes(t)))

    def reduce_for(self, terminal: str) -> bool:
        """Finish what is finished before `terminal`; whether that can be taken then."""
        while True:
            action = self.rows[self.states[-1]].get(terminal)
            if action is None:
                return False
            if action >= 0:
                return True
            self._reduce(-action - 1)

    def shift(self, terminal: str, value: Any, start: int, end: int) -> None:
        """Take `terminal`, which `reduce_for` allowed."""
        self._asked = None
        self.states.append(self.rows[self.states[-1]][terminal])
        self.values.append(value)
        self.starts.append(start)
        self.ends.append(end)
        step = 1 if terminal == "LBRACE" else -1 if terminal == "RBRACE" else 0
        self.braces.append(self.braces[-1] + step)

    def drop_to(self, depth: int) -> None:
        """Forget all but the first `depth` entries."""
        self._asked = None
        for entries in (self.states, self.values, self.starts, self.ends, self.braces):
            del entries[depth:]

    def finish(self) -> Any:
        """The value of the whole; entries that do not lead to one are forgotten."""
        while not self.takes(END):
            self.drop_to(len(self.states) - 1)
        assert self.reduce_for(END)
        return self.values[-1]

    def _reduce(self, number: int) -> None:
        self._asked = None
        rule = self.tables.rules[number]
        states = self.states
        if number not in self._makers:
            self._makers[number] = None if rule.is_plain_pass else _maker(rule, self._builder)
        maker = self._makers[number]
        if maker is None:
            states[-1] = self.rows[states[-2]][rule.origin]
            return
        length = rule.length
        value = maker(self, length)
        if length == 1:
            # What replaces one entry begins and ends where that did.
            states[-1] = self.rows[states[-2]][rule.origin]
            self.values[-1] = value
            self.braces[-1] = self.braces[-2]
            return
        if length:
            start, end = self.starts[-length], self.ends[-1]
            self.drop_to(len(states) - length)
        else:
            start = end = self.ends[-1]
        states.append(self.rows[states[-1]][rule.origin])
        self.values.append(value)
        self.starts.append(start)
        self.ends.append(end)
        self.braces.append(self.braces[-1])


def takes(tables: Tables, states: Sequence[int], terminal: str) -> bool:
    """Whether an automaton with these states can take `terminal`, reductions first."""
    rows, rules = tables.rows, tables.rules
    # The stack is what is left of `states` below `depth`, and then `above`.
    depth = len(states)
    above: list[int] = []
    while True:
        top = above[-1] if above else states[depth - 1]
        action = rows[top].get(terminal)
        if action is None:
            return False
        if action >= 0:
            return True
        rule = rules[-action - 1]
        length = rule.length
        kept = len(above) - length
        if kept < 0:
            depth += kept
            kept = 0
        del above[kept:]
        top = above[-1] if above else states[depth - 1]
        above.append(rows[top][rule.origin])


def _maker(rule: RuleShape, builder: ValueBuilder) -> Maker:
    picks, missing_last = rule.picks, rule.missing_last
    is_list = rule.origin.startswith("_")
    indexes = [index for index, _, _ in picks]
    callback = None if is_list or rule.passes_single else builder.callback(rule.callback)

    def make_plain(automaton: Automaton, length: int) -> Any:
        values = automaton.values
        base = len(values) - length
        assert callback is not None
        return callback(
            automaton.starts[base], automaton.ends[-1], *[values[base + index] for index in indexes]
        )

    def make(automaton: Automaton, length: int) -> Any:
        values = automaton.values
        base = len(values) - length
        children: list[Any] = []
        for index, spread, missing in picks:
            if missing:
                children.extend([None] * missing)
            if spread:
                children.extend(values[base + index])
            else:
                children.append(values[base + index])
        if missing_last:
            children.extend([None] * missing_last)
        if is_list:
            return children
        if callback is None:
            assert len(children) == 1, rule.origin
            return children[0]
        if not length:
            return callback(automaton.ends[-1], automaton.ends[-1], *children)
        return callback(automaton.starts[base], automaton.ends[-1], *children)

    is_plain = callback is not None and rule.length > 0 and not missing_last
    if is_plain and not any(spread or missing for _, spread, missing in picks):
        return make_plain
    return make


def open_constructs(tables: Tables, states: Sequence[int]) -> Iterator[str]:
    """The rules under way, the innermost first; those that can only be complete are not."""
    stack = list(states)
    while len(actions := set(tables.rows[stack[-1]].values())) == 1:
        (action,) = actions
        if action >= 0:
            break
        rule = tables.rules[-action - 1]
        del stack[len(stack) - rule.length :]
        stack.append(tables.rows[stack[-1]][rule.origin])
    for state in reversed(stack):
        yield from tables.constructs[state]
