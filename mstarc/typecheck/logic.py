"""Conditions as binary decision diagrams, so that "holds whenever" has an exact answer.

The atoms are static conditions: an option that is true, a comparison of options, `wants speech`,
a flag. Formulas are numbers; equal numbers mean equal conditions. `FALSE` is 0, `TRUE` is 1.
What atoms have to do with one another (`n == 1` excludes `n == 2`) is said by `assume`. A condition
that is wrong is `unknown`: that is reported, and nothing that depends on how it was meant.
"""

from collections.abc import Iterable, Mapping

FALSE = 0
TRUE = 1


class Logic:
    """Makes formulas and keeps the tables that make them unique."""

    def __init__(self) -> None:
        self._atoms: list[str] = []
        self._levels: dict[str, int] = {}
        self._nodes: list[tuple[int, int, int]] = [(1 << 30, 0, 0), (1 << 30, 1, 1)]
        self._unique: dict[tuple[int, int, int], int] = {}
        self._choices: dict[tuple[int, int, int], int] = {}
        self._axioms: list[int] = []
        self._unknown: set[str] = set()

    def atom(self, text: str) -> int:
        """The formula that holds exactly where the atom `text` does."""
        level = self._levels.setdefault(text, len(self._atoms))
        if level == len(self._atoms):
            self._atoms.append(text)
        return self._node(level, TRUE, FALSE)

    def unknown(self, text: str) -> int:
        """The formula of a condition that is wrong, so that nobody knows when it holds."""
        self._unknown.add(text)
        return self.atom(text)

    def choice(self, condition: int, then: int, otherwise: int) -> int:
        """`then` where `condition` holds, else `otherwise`."""
        if condition == TRUE or then == otherwise:
            return then
        if condition == FALSE:
            return otherwise
        if then == TRUE and otherwise == FALSE:
            return condition
        key = (condition, then, otherwise)
        if (known := self._choices.get(key)) is not None:
            return known
        nodes = self._nodes
        asked, first, second = nodes[condition], nodes[then], nodes[otherwise]
        level = min(asked[0], first[0], second[0])
        # Each formula where the atom of `level` holds, and where it does not.
        _, condition_high, condition_low = asked if asked[0] == level else (0, condition, condition)
        _, then_high, then_low = first if first[0] == level else (0, then, then)
        _, other_high, other_low = second if second[0] == level else (0, otherwise, otherwise)
        high = self.choice(condition_high, then_high, other_high)
        low = self.choice(condition_low, then_low, other_low)
        result = self._node(level, high, low)
        self._choices[key] = result
        return result

    def both(self, *formulas: int) -> int:
        """Where all hold."""
        result = TRUE
        for formula in formulas:
            result = self.choice(result, formula, FALSE)
        return result

    def either(self, *formulas: int) -> int:
        """Where at least one holds."""
        result = FALSE
        for formula in formulas:
            result = self.choice(result, TRUE, formula)
        return result

    def negation(self, formula: int) -> int:
        """Where `formula` does not hold."""
        return self.choice(formula, FALSE, TRUE)

    def assume(self, axiom: int) -> None:
        """Note a formula that holds whatever a request says."""
        if axiom != TRUE:
            self._axioms.append(axiom)

    def implies(self, premise: int, conclusion: int) -> bool:
        """Whether `conclusion` holds wherever `premise` does, for all that is known."""
        if conclusion in (TRUE, premise):
            return True
        return not self.is_possible_anyway(self.both(premise, self.negation(conclusion)))

    def is_possible(self, formula: int) -> bool:
        """Whether some request makes `formula` hold."""
        return formula != FALSE and self._with_axioms(formula) != FALSE

    def is_possible_anyway(self, formula: int) -> bool:
        """Whether some request makes `formula` hold, whatever is meant where it is unknown."""
        if self._unknown:
            unknown = [text for text in self.atoms_of(formula) if text in self._unknown]
            formula = self.always(formula, unknown)
        return self.is_possible(formula)

    def compose(self, formula: int, values: Mapping[str, int]) -> int:
        """The formula with atoms replaced by other formulas."""
        if formula <= TRUE:
            return formula
        level, high, low = self._nodes[formula]
        text = self._atoms[level]
        condition = values[text] if text in values else self.atom(text)
        return self.choice(condition, self.compose(high, values), self.compose(low, values))

    def always(self, formula: int, atoms: Iterable[str]) -> int:
        """Where `formula` holds whatever `atoms` are."""
        for text in atoms:
            formula = self.both(
                self.compose(formula, {text: TRUE}), self.compose(formula, {text: FALSE})
            )
        return formula

    def sometimes(self, formula: int, atoms: Iterable[str]) -> int:
        """Where `formula` holds for some values of `atoms`."""
        return self.negation(self.always(self.negation(formula), atoms))

    def atoms_of(self, formula: int) -> tuple[str, ...]:
        """The atoms that a formula depends on, in the order in which they were made."""
        seen: set[int] = set()
        levels: set[int] = set()
        waiting = [formula]
        while waiting:
            current = waiting.pop()
            if current <= TRUE or current in seen:
                continue
            seen.add(current)
            level, high, low = self._nodes[current]
            levels.add(level)
            waiting.extend((high, low))
        return tuple(self._atoms[level] for level in sorted(levels))

    def example(self, formula: int) -> dict[str, bool]:
        """Truth values of atoms under which `formula`, which must be possible, holds."""
        formula = self._with_axioms(formula)
        assert formula != FALSE
        values: dict[str, bool] = {}
        while formula != TRUE:
            level, high, low = self._nodes[formula]
            values[self._atoms[level]] = low == FALSE
            formula = high if low == FALSE else low
        return values

    def _with_axioms(self, formula: int) -> int:
        """The formula and every axiom that has something to do with it."""
        if not self._axioms or formula == FALSE:
            return formula
        left = list(self._axioms)
        known = set(self.atoms_of(formula))
        while True:
            near = [axiom for axiom in left if known.intersection(self.atoms_of(axiom))]
            if not near:
                return formula
            left = [axiom for axiom in left if axiom not in near]
            for axiom in near:
                known.update(self.atoms_of(axiom))
            formula = self.both(formula, *near)

    def _node(self, level: int, high: int, low: int) -> int:
        if high == low:
            return high
        key = (level, high, low)
        number = self._unique.setdefault(key, len(self._nodes))
        if number == len(self._nodes):
            self._nodes.append(key)
        return number
