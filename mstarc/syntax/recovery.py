"""Where to go on after a mistake: the one mark that is missing, or the next place to begin again.

Not here: what was meant by a token that is wrong (`habits`), and what is said of it (`errors`).
"""

from mstarc.syntax.automaton import Automaton, takes
from mstarc.syntax.braces import DECLARATION_WORDS, PairedTokens
from mstarc.syntax.tables import END, Tables
from mstarc.syntax.terminals import mark_terminal
from mstarc.syntax.tokens import END_OF_TEXT, FLOAT, INT, MARK, NAME, STRING, Token
from mstarc.syntax.words import RESERVED

_INSERTED = (":", "=", ",", ")", "]", "(", "{", "<-", "->", "]", "..", ".")
_STARTERS = DECLARATION_WORDS | frozenset(
    [
        "impl",
        "weights",
        "shards",
        "kv",
        "sample",
        "contexts",
        "op",
        "in",
        "out",
        "opt",
        "state",
        "send",
        "emit",
        "loop",
        "parallel",
        "when",
        "fork",
        "release",
        "run",
        "for",
        "match",
        "each",
        "mark",
        "let",
        "next",
    ]
)


class Recovery:
    """What the parser asks where a token does not fit; it may drop entries of the automaton."""

    def __init__(self, paired: PairedTokens, tables: Tables, automaton: Automaton) -> None:
        self.paired = paired
        self.tokens = paired.tokens
        self.tables = tables
        self.automaton = automaton

    def missing(self, number: int) -> Token | None:
        """The one mark that makes the token fit when put in, if there is exactly one."""
        token = self.tokens[number]
        at = self.tokens[number - 1].end if number else 0
        fitting: list[str] = []
        for text in dict.fromkeys(_INSERTED):
            terminal = self.tables.marks.get(text)
            if terminal is None or not self.automaton.takes(terminal):
                continue
            states = list(self.automaton.states)
            if self._fits_after(states, terminal, token):
                fitting.append(text)
        if token.first_on_line:
            # A new line is rather the end of what is open than its next item.
            fitting = [text for text in fitting if text in (")", "]")] or fitting
        if len(fitting) != 1:
            return None
        return Token(MARK, fitting[0], at, at, False, virtual=True)

    def _fits_after(self, states: list[int], terminal: str, token: Token) -> bool:
        """Whether `token` can come after `terminal`; a word counts as a name or as itself."""
        rows = self.tables.rows
        while (action := rows[states[-1]][terminal]) < 0:
            rule = self.tables.rules[-action - 1]
            del states[len(states) - rule.length :]
            states.append(rows[states[-1]][rule.origin])
        states.append(action)
        if token.kind == MARK:
            kinds = [mark_terminal(token.text, self.tables)]
        elif token.kind == NAME:
            word = self.tables.words.get(token.text)
            kinds = [word] if token.text in RESERVED else [word, NAME]
        else:
            kinds = [token.kind]
        return any(kind is not None and takes(self.tables, states, kind) for kind in kinds)

    def next_place(self, number: int) -> int:
        """Drop what is unfinished; the number of the token where the parser can go on."""
        tokens, paired = self.tokens, self.paired
        group = paired.group[number] if number < len(tokens) else -1
        parentheses = 0
        while tokens[number].kind != END_OF_TEXT:
            token = tokens[number]
            depth = paired.depth[number]
            if token.text == "}" and token.kind == MARK:
                if self._drop_to_taker("RBRACE", depth):
                    return number
                group = paired.group[group] if group >= 0 else -1
                number += 1
                parentheses = 0
                continue
            if token.text == "{" and token.kind == MARK:
                number = paired.close[number] + 1
                continue
            if token.kind == MARK and token.text in "([":
                parentheses += 1
            elif token.kind == MARK and token.text in ")]":
                parentheses -= 1
            elif token.first_on_line and self._can_begin(number, parentheses):
                terminal = self.tables.words.get(token.text)
                begins = terminal if token.text in _STARTERS else NAME
                if begins is not None and self._drop_to_taker(begins, depth, as_item=True):
                    return number
            number += 1
        return number

    def _can_begin(self, number: int, parentheses: int) -> bool:
        """Whether a line may begin a statement, an item or a declaration."""
        token, after = self.tokens[number], self.tokens[number + 1]
        if token.kind != NAME:
            return False
        if token.text in _STARTERS:
            return after.kind in (NAME, STRING, INT, FLOAT) or after.text in ("{", "(", "-", "[")
        return parentheses <= 0 and after.text in ("=", ":", ".", ",", "(")

    def _drop_to_taker(self, terminal: str, depth: int, *, as_item: bool = False) -> bool:
        """Drop entries until `terminal` can come, `depth` braces being open; false if it can't.

        `as_item`: it begins an item of a block or of the file, so the block could end there too.
        """
        closer = "RBRACE" if depth else END
        automaton = self.automaton
        for size in range(len(automaton.states), 0, -1):
            braces = automaton.braces[size - 1]
            if braces < depth:
                return False
            if braces != depth or not automaton.takes(terminal, size):
                continue
            if as_item and not automaton.takes(closer, size):
                continue
            automaton.drop_to(size)
            return True
        return False
