"""Scopes, and the report of a name that no scope knows."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from mstarc.diagnostics import Diagnostic, DiagnosticSink, Edit, Fix, Label, did_you_mean
from mstarc.diagnostics.suggest import related
from mstarc.names.symbols import Symbol, Symbols
from mstarc.records import dataclass
from mstarc.syntax import ast

_MOST_LISTED = 8
MOST_AKIN = 2
"""Names that share a word with an unknown one; of more, none is likely."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Names seen from one place, the nearest first. `hidden` names exist but are not seen here."""

    names: Mapping[str, Symbol]
    outer: "Scope | None" = None
    hidden: Mapping[str, Symbol] = field(default_factory=dict)

    def find(self, name: str) -> Symbol | None:
        """What `name` means here."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return None

    def find_hidden(self, name: str) -> Symbol | None:
        """What `name` would mean if it were seen here."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.hidden:
                return scope.hidden[name]
            scope = scope.outer
        return None

    def all_names(self) -> Iterator[str]:
        """Every name that is seen, nearest first."""
        scope: Scope | None = self
        while scope is not None:
            yield from scope.names
            scope = scope.outer


@dataclass(frozen=True, slots=True, kw_only=True)
class Uses:
    """What the resolver works on: the declarations, and the uses found so far.

    `untaken` are the results of calls in the body at hand for which there are not as many names as
    results: one of them that is read is missing for that reason, which is reported with the types.
    """

    symbols: Symbols
    sink: DiagnosticSink
    found: dict[ast.Name, Symbol] = field(default_factory=dict)
    untaken: set[str] = field(default_factory=set)

    def use(
        self, name: ast.Name, table: Mapping[str, Symbol], code: str, what: str
    ) -> Symbol | None:
        """Note what `name` means in `table`; where it means nothing, report `code`."""
        symbol = table.get(name.text)
        if symbol is None:
            report_unknown(name, table, code, what, self.sink)
        else:
            self.found[name] = symbol
        return symbol


def report_unknown(
    name: ast.Name,
    known: Iterable[str],
    code: str,
    what: str,
    sink: DiagnosticSink,
    *,
    notes: tuple[str, ...] = (),
    helps: tuple[str, ...] = (),
) -> None:
    """Say that there is no `what` of this name, and which ones come near it."""
    names = sorted(set(known))
    near = did_you_mean(name.text, names)
    diagnostic = Diagnostic(
        code=code,
        message=f"there is no {what} `{name.text}`",
        primary=Label(span=name.span, text="not found"),
        notes=notes,
    )
    akin = () if near or helps else related(name.text, names)
    if near or 0 < len(akin) <= MOST_AKIN:
        listed = " or ".join(f"`{item}`" for item in near or akin)
        diagnostic = diagnostic.help(f"did you mean {listed}?")
    elif names and not helps:
        listed = ", ".join(f"`{item}`" for item in names[:_MOST_LISTED])
        more = len(names) - _MOST_LISTED
        listed += f" and {more} more" if more > 0 else ""
        diagnostic = diagnostic.help(f"what there is: {listed}")
    for text in helps:
        diagnostic = diagnostic.help(text)
    if len(near) == 1:
        diagnostic = diagnostic.with_fix(
            Fix(
                message=f"write `{near[0]}`",
                edits=(Edit(span=name.span, text=near[0]),),
                applicability="unsafe",
            )
        )
    sink.report(diagnostic)
