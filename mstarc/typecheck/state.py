"""What the parts of the checker share while they work: the tables that become a `Typed`."""

from dataclasses import field

from mstarc.diagnostics import Diagnostic, DiagnosticSink
from mstarc.names import Resolved, Symbol
from mstarc.records import dataclass
from mstarc.source import Span
from mstarc.syntax import ast
from mstarc.typecheck.constants import ConfigValue
from mstarc.typecheck.dims import Dim, DimOrigin, DimVar, variable
from mstarc.typecheck.logic import Logic
from mstarc.typecheck.typed import (
    Call,
    NodeInfo,
    OptionInfo,
    PolicyInfo,
    StreamInfo,
    WalkInfo,
)
from mstarc.typecheck.types import TensorType, Type


@dataclass(slots=True, kw_only=True)
class State:
    """Filled by one part after another; each table is complete before the next part reads it."""

    resolved: Resolved
    sink: DiagnosticSink
    config: dict[str, ConfigValue]
    logic: Logic = field(default_factory=Logic)
    fields: dict[str, Type] = field(default_factory=dict)
    options: dict[str, OptionInfo] = field(default_factory=dict)
    nodes: dict[str, NodeInfo] = field(default_factory=dict)
    streams: dict[str, StreamInfo] = field(default_factory=dict)
    walks: dict[str, WalkInfo] = field(default_factory=dict)
    types: dict[ast.Node, Type] = field(default_factory=dict)
    arguments: dict[Call, tuple[ast.Expr, ...]] = field(default_factory=dict)
    contexts: dict[ast.Node, str] = field(default_factory=dict)
    over: dict[ast.OpCall, tuple[bool, ...]] = field(default_factory=dict)
    policies: dict[ast.Each, PolicyInfo] = field(default_factory=dict)
    registers: dict[str, dict[Symbol, Type]] = field(default_factory=dict)
    unsure: set[Symbol] = field(default_factory=set)
    runs: dict[ast.RunCall, int] = field(default_factory=dict)
    """What holds where each walk is run."""
    pictures: dict[ast.Emit, tuple[TensorType, int]] = field(default_factory=dict)
    """What is emitted as pixels, and what holds there."""
    misplaced: set[str] = field(default_factory=set)
    """Nodes of a device that have to do with what stays on the host."""
    entries: dict[ast.Expr, tuple[Symbol, int]] = field(default_factory=dict)
    """Indices of tables of which sizes alone do not say that they are there, and what holds."""
    doubtful: set[str] = field(default_factory=set)
    """Streams to which something else is sent than they say: one of the two is wrong."""
    wrong: set[ast.Expr] = field(default_factory=set)
    """Conditions in which something is wrong."""
    unused: list[Diagnostic] = field(default_factory=list)
    """Values that nothing reads; what else is wrong may be the reason (`leftovers`)."""
    compared: dict[str, list[tuple[str, int | float | bool | str]]] = field(default_factory=dict)
    scopes: int = 0
    fresh: dict[tuple[ast.Node, DimVar], DimVar] = field(default_factory=dict)

    def new_scope(self) -> int:
        """A number that no dims have yet; 0 is the scope of the request."""
        self.scopes += 1
        return self.scopes

    def fresh_dim(self, place: ast.Node, like: DimVar, origin: DimOrigin) -> Dim:
        """A size of its own for one place in the spec: the same each time that it is checked."""
        key = (place, like)
        if key not in self.fresh:
            self.fresh[key] = DimVar(like.name, self.new_scope(), origin)
        return variable(self.fresh[key])

    def error(self, code: str, span: Span, message: str, label: str = "") -> None:
        """Report a finding that has a headline and a primary label only."""
        self.sink.error(code, span, message, label)
