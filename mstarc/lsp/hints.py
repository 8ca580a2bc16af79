"""Types that an author did not write: of values that walks and machines set."""

from collections.abc import Iterator

from mstarc.driver import Inspection
from mstarc.records import dataclass
from mstarc.source import Span
from mstarc.syntax import ast


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """A text to show behind the place `offset`."""

    offset: int
    text: str


def hints(inspection: Inspection, within: Span) -> tuple[Hint, ...]:
    """The types of the names that are set inside a part of the text."""
    if inspection.tree is None or inspection.typed is None:
        return ()
    types = inspection.typed.types
    found = []
    for declaration in inspection.tree.declarations:
        if not isinstance(declaration, ast.WalkDecl | ast.MachineDecl):
            continue
        if declaration.span.end < within.start or declaration.span.start > within.end:
            continue
        for name in _set_names(declaration):
            type_ = types.get(name)
            if type_ is None or str(type_) == "?":
                continue
            if within.start <= name.span.end <= within.end:
                found.append(Hint(offset=name.span.end, text=f": {type_}"))
    return tuple(sorted(found, key=lambda hint: hint.offset))


def _set_names(declaration: ast.Node) -> Iterator[ast.Name]:
    for node in ast.descendants(declaration):
        match node:
            case ast.Assign(targets=targets):
                yield from (target for target in targets if isinstance(target, ast.Name))
            case ast.Carry(name=name) | ast.Collect(name=name) | ast.Let(name=name):
                yield name
            case ast.Each(items=items):
                yield from items
            case ast.Arm(binding=binding):
                yield binding
            case _:
                pass
