"""Which names may come at a place: of what kind, and what there is of that kind.

The tokens of the declaration up to the place say the kind: after `send` comes a stream, after `lm.`
an op of that node. What there is comes from the last inspection.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import get_args

from mstarc.driver import Inspection
from mstarc.lsp.index import Index
from mstarc.lsp.items import Item, item_of, word_item
from mstarc.lsp.words import WORDS
from mstarc.names import Resolved, Symbol
from mstarc.syntax import ast
from mstarc.typecheck.nodes import SHARD_KINDS
from mstarc.typecheck.typed import EmptyKind, Engine, MaskKind, PolicyKind, TailKind
from mstarc.typecheck.types import DTYPES, MEDIA_KINDS, SCALAR_KINDS, TupleType

_TYPES = (*DTYPES, *SCALAR_KINDS, *MEDIA_KINDS, "flag")
_FUNCTIONS = ("stack", "concat", "repeat")
_PART_FIELDS = ("role", "first", "last", "opens", "closes")
_NOT_IN: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "walk": frozenset(("let", "for", "match", "each", "next")),
        "machine": frozenset(("send", "emit", "loop", "parallel")),
    }
)
# Words of which only these can come next.
_AFTER: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "attends": get_args(MaskKind),
        "chunk": get_args(PolicyKind),
        "tail": get_args(TailKind),
        "empty": get_args(EmptyKind),
        "shards": SHARD_KINDS,
    }
)
_OWNERS = (ast.WalkDecl, ast.MachineDecl, ast.TableDecl, ast.NodeDecl)
_KIND_OF_WORD: Mapping[str, type[ast.Node]] = MappingProxyType(
    {
        "walk": ast.WalkDecl,
        "machine": ast.MachineDecl,
        "table": ast.TableDecl,
        "node": ast.NodeDecl,
    }
)


class Place:
    """Where the completion is asked for; `is_closed` when only its own names can come."""

    def __init__(
        self, inspection: Inspection, index: Index, tokens: list[str], begin: int, offset: int
    ) -> None:
        self.inspection = inspection
        self.index = index
        self.tokens = tokens
        self.begin = begin
        self.offset = offset
        self.is_closed = False

    def token(self, back: int) -> str:
        return self.tokens[-back] if len(self.tokens) >= back else ""

    def names(self, taken: frozenset[str] | None) -> Iterator[Item]:
        resolved = self.inspection.resolved
        last = self.token(1)
        if last in _AFTER and taken is not None and "NAME" in taken:
            self.is_closed = True
            yield from (word_item(word) for word in _AFTER[last])
            return
        if self.is_type(taken):
            self.is_closed = True
            names = get_args(Engine) if self.is_engine() else _TYPES
            yield from (Item(label=name, kind="type", doc=WORDS.get(name)) for name in names)
            return
        if resolved is None or (taken is not None and "NAME" not in taken):
            return
        found = self.special(resolved)
        if found is not None:
            self.is_closed = True
            yield from found
        elif taken is None or self.is_value(taken):
            yield from self.values(resolved, begins_statement=taken is not None and "emit" in taken)

    # What kind of place it is

    def words_out_of_place(self) -> frozenset[str]:
        """Words that the grammar takes in every block, and the language only in some."""
        return _NOT_IN.get(self.tokens[0] if self.tokens else "", frozenset())

    def is_engine(self) -> bool:
        return self.token(1) == ":" and self.token(3) == "node"

    def is_type(self, taken: frozenset[str] | None) -> bool:
        if self.token(1) == ":":
            # A `:` in brackets is a slice's.
            return taken is None or "INT" not in taken
        in_parts = self.token(1) in ("[", "|") and taken == frozenset(("NAME",))
        return in_parts and ":" in self.tokens[-8:]

    def is_value(self, taken: frozenset[str]) -> bool:
        """Whether a name here is one that exists, and not one that is being made up."""
        if self.token(1) in ("writes", "reads", "sampler"):
            return True
        if self.token(1) == "," and self.tokens[0] in ("walk", "machine"):
            # More targets of an assignment, which may be set again.
            return True
        return "INT" in taken or "send" in taken or "run" in taken or "pull" in taken

    def special(self, resolved: Resolved) -> Iterable[Item] | None:
        """The names of places where only one kind can come."""
        symbols = resolved.symbols
        last, before = self.token(1), self.token(2)
        if last == ".":
            return self.members(resolved, before)
        tables: dict[str, Callable[[], Iterable[Symbol]]] = {
            "run": symbols.walks.values,
            "send": symbols.streams.values,
            "pull": symbols.streams.values,
            "each": symbols.streams.values,
            "mark": symbols.streams.values,
            "emit": symbols.outputs.values,
            "wants": symbols.outputs.values,
            "has": lambda: symbols.values_of("input"),
            "via": symbols.nodes.values,
            "into": symbols.nodes.values,
            "fork": symbols.nodes.values,
            "release": symbols.nodes.values,
        }
        if last in tables:
            return self.items(tables[last]())
        if last == "(" and before == "zip":
            return self.items(symbols.streams.values())
        if last == "in" and self.token(3) == "for":
            return self.items(symbols.values_of("input"))
        if last == "next" or (last == "else" and "next" in self.statement()):
            return self.states(resolved)
        if last == "until" and "each" in self.statement():
            return self.read_marks(resolved)
        if last == "on":
            return self.contexts(resolved, self.called_node())
        if self.tokens[0] == "variant" and last in ("{", ","):
            is_in_braces = "{" in self.tokens
            return self.items(
                symbols.values_of("config") if is_in_braces else symbols.outputs.values()
            )
        if self.list_word() == "without":
            return self.items(symbols.outputs.values())
        if self.list_word() in ("writes", "reads"):
            return self.contexts(resolved, self.own_node())
        if last == "=" and self.token(5) == "fork":
            return self.items(symbols.nodes.values())
        if last == "match":
            return [item_of(s, self.inspection) for s in self.local_symbols() if s.kind == "part"]
        if last == "sampler" and self.own_node() in symbols.members:
            return self.items(symbols.members[self.own_node()].samplers.values())
        return None

    def statement(self) -> list[str]:
        """The tokens since the last brace."""
        braces = [index for index, token in enumerate(self.tokens) if token in ("{", "}")]
        return self.tokens[braces[-1] + 1 :] if braces else self.tokens

    def list_word(self) -> str:
        """The word before a list of names that this place continues."""
        back = 1
        while self.token(back) == "," and self.token(back + 1).isidentifier():
            back += 2
        return self.token(back)

    def callee(self, resolved: Resolved) -> ast.OpDecl | ast.WalkDecl | None:
        """The op or walk whose arguments stand here."""
        if self.token(1) not in ("(", ","):
            return None
        depth = 0
        for index in range(len(self.tokens) - 1, 1, -1):
            token = self.tokens[index]
            if token in ("{", "}"):
                return None
            depth += {")": 1, "(": -1, "]": 1, "[": -1}.get(token, 0)
            if depth < 0:
                return self.declared_call(resolved, index)
        return None

    def declared_call(self, resolved: Resolved, bracket: int) -> ast.OpDecl | ast.WalkDecl | None:
        symbols = resolved.symbols
        name, before = self.tokens[bracket - 1], self.tokens[bracket - 2]
        symbol = symbols.walks.get(name) if before == "run" else None
        if before == "." and bracket >= 3 and self.tokens[bracket - 3] in symbols.members:
            symbol = symbols.members[self.tokens[bracket - 3]].ops.get(name)
        node = symbol.node if symbol is not None else None
        return node if isinstance(node, ast.OpDecl | ast.WalkDecl) else None

    # The names

    def items(self, symbols: Iterable[Symbol]) -> list[Item]:
        return [item_of(symbol, self.inspection) for symbol in symbols]

    def members(self, resolved: Resolved, base: str) -> Iterable[Item]:
        symbols = resolved.symbols
        if self.token(3) == "mark" and base in symbols.marks:
            return self.items(symbols.marks[base].values())
        if base in symbols.members:
            head = {self.token(3), self.token(5)} | (
                {self.token(6)} if self.token(3) == "=" else set()
            )
            if head & {"fork", "release"} or self.is_fork_source():
                return self.contexts(resolved, base)
            return self.items(symbols.members[base].ops.values())
        for symbol in self.local_symbols():
            if symbol.name == base:
                return self.fields(symbol)
        return ()

    def is_fork_source(self) -> bool:
        """Whether this stands after `fork node.context = node.`."""
        return len(self.tokens) >= 7 and self.tokens[-7] == "fork" and self.tokens[-3] == "="

    def fields(self, symbol: Symbol) -> list[Item]:
        if symbol.kind == "part":
            return [Item(label=name, kind="field", detail="of a part") for name in _PART_FIELDS]
        typed = self.inspection.typed
        if typed is None:
            return []
        names = self.index.names_of(symbol)
        type_ = next((typed.types[name] for name in names if name in typed.types), None)
        item = getattr(type_, "item", type_)
        if not isinstance(item, TupleType):
            return []
        return [Item(label=name, kind="field", detail=str(of)) for name, of in item.fields]

    def read_marks(self, resolved: Resolved) -> list[Item]:
        """The marks of the stream that the `each` around this place reads."""
        statement = self.statement()
        stream = (*statement[statement.index("each") + 1 :], "")[0]
        return self.items(resolved.symbols.marks.get(stream, {}).values())

    def states(self, resolved: Resolved) -> list[Item]:
        machine = self.tokens[1] if len(self.tokens) > 1 else ""
        table = resolved.symbols.states.get(machine, {})
        return [*self.items(table.values()), Item(label="done", kind="state", doc=WORDS["done"])]

    def contexts(self, resolved: Resolved, node: str) -> list[Item]:
        members = resolved.symbols.members.get(node)
        if members is None:
            return []
        if not members.contexts:
            return [Item(label="main", kind="value", detail="the only context")]
        return self.items(members.contexts.values())

    def called_node(self) -> str:
        """The node of the call that `on` follows."""
        depth = 0
        for index in range(len(self.tokens) - 2, -1, -1):
            token = self.tokens[index]
            depth += {")": 1, "(": -1}.get(token, 0)
            if depth == 0 and token == "(" and index >= 3:
                return self.tokens[index - 3]
        return ""

    def own_node(self) -> str:
        return self.tokens[1] if len(self.tokens) > 1 and self.tokens[0] == "node" else ""

    def values(self, resolved: Resolved, *, begins_statement: bool) -> Iterator[Item]:
        """All that an expression may name here; a statement begins with a value or a node."""
        symbols = resolved.symbols
        in_walk = bool(self.tokens) and self.tokens[0] == "walk"
        if self.tokens[-2:] == ["until", "("] and "each" in self.statement():
            yield from self.read_marks(resolved)
        callee = self.callee(resolved)
        for param in callee.params if callee is not None else ():
            name = param.name.text
            yield Item(label=f"{name} =", kind="field", detail="by name", snippet=f"{name} = $1")
        seen: set[str] = set()
        for symbol in self.local_symbols():
            if symbol.name not in seen:
                seen.add(symbol.name)
                yield item_of(symbol, self.inspection, self.index)
        for symbol in () if begins_statement else symbols.values.values():
            if not (in_walk and symbol.kind == "input"):
                yield item_of(symbol, self.inspection)
        if self.tokens and self.tokens[0] in ("walk", "machine"):
            yield from self.items(symbols.nodes.values())
        if in_walk and not begins_statement:
            for name in _FUNCTIONS:
                snippet = f"{name}($1)"
                yield Item(label=name, kind="function", doc=WORDS[name], snippet=snippet)

    def local_symbols(self) -> Iterator[Symbol]:
        """What the declaration around this place makes: parameters, values, indices, parts."""
        own = self.own_declaration()
        if own is None:
            return
        found = {
            symbol
            for place, symbol in self.index.meanings.items()
            if own.span.start <= place.span.start < own.span.end
            and own.span.start <= symbol.declaration.span.start < own.span.end
            and symbol.kind in ("parameter", "value", "index", "part", "last")
        }
        yield from sorted(found, key=lambda symbol: symbol.declaration.span.start)

    def own_declaration(self) -> ast.Node | None:
        """The walk, machine, table or op around this place, as it was inspected."""
        tree = self.inspection.tree
        kind, name = (*self.tokens[:2], "", "")[:2]
        own = next(
            (
                declaration
                for declaration in (tree.declarations if tree is not None else ())
                if isinstance(declaration, _OWNERS)
                and isinstance(declaration, _KIND_OF_WORD.get(kind, ()))
                and declaration.name.text == name
            ),
            None,
        )
        if not isinstance(own, ast.NodeDecl):
            return own
        places = [index for index, token in enumerate(self.tokens[:-1]) if token == "op"]
        op = self.tokens[places[-1] + 1] if places else ""
        return next((declared for declared in own.ops if declared.name.text == op), None)
