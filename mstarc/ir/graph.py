"""Programs: walks and machines over what is declared, and what the passes have decided about them.

Nodes, the request and streams are in `declarations`, what stands in a body in `statements`; others
import all of them from here.

In a walk every value has one definition. A loop's carried values are parameters of its body;
`yields` are their values for the next pass, in the same order:

    %last = loop max $max_tokens carry (%token = %first) while %token != 2 {
      send codes <- %token
      %token.1 = lm.step(%token)
      yield %token.1
    }

A machine's registers hold none until they are set, and may be set again; they live as long as the
request.
"""

from mstarc.ir.decisions import Capacity, Hop, MemoryRow, PagePool, Placement, Region, Uncaptured
from mstarc.ir.declarations import (
    Context,
    Engine,
    InputField,
    Let,
    Mask,
    Need,
    Node,
    Op,
    OptionField,
    OutputField,
    Parameter,
    Policy,
    Result,
    Stream,
    Table,
    Tail,
    Value,
    Weights,
)
from mstarc.ir.exprs import Expr
from mstarc.ir.statements import (
    Arm,
    Assign,
    Call,
    Carry,
    Collect,
    Each,
    Emit,
    Fork,
    ForParts,
    Loop,
    MarkStream,
    Match,
    Parallel,
    Pull,
    Release,
    Run,
    Send,
    SetRegister,
    Statement,
    When,
)
from mstarc.records import dataclass
from mstarc.source import Span

__all__ = [
    "Arm",
    "Assign",
    "Call",
    "Carry",
    "Collect",
    "Context",
    "Each",
    "Emit",
    "Engine",
    "ForParts",
    "Fork",
    "InputField",
    "Let",
    "Loop",
    "Machine",
    "MarkStream",
    "Mask",
    "Match",
    "Need",
    "Node",
    "Op",
    "OptionField",
    "OutputField",
    "Parallel",
    "Parameter",
    "Policy",
    "Program",
    "Pull",
    "Release",
    "Result",
    "Run",
    "Send",
    "SetRegister",
    "State",
    "Statement",
    "Stream",
    "Table",
    "Tail",
    "Transition",
    "Value",
    "Walk",
    "Weights",
    "When",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """A named path. `returns` are the values of `results`, in order."""

    name: str
    parameters: tuple[Value, ...]
    results: tuple[Result, ...]
    body: tuple[Statement, ...]
    returns: tuple[Expr, ...] = ()
    aliases: tuple[str, ...] = ()
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """Go to state `target` (`done` ends the machine), or, if `condition` fails, to `otherwise`."""

    target: str
    condition: Expr | None = None
    otherwise: str | None = None
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    name: str
    body: tuple[Statement, ...]
    next: Transition
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The per-request program that picks walks; the first state is where it starts."""

    name: str
    condition: Expr | None = None
    registers: tuple[Value, ...] = ()
    states: tuple[State, ...]
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A whole model. What no pass has decided yet is None or empty."""

    model: str
    checkpoint: str | None
    config: tuple[tuple[str, int | float | bool | str | tuple[int | float | bool | str, ...]], ...]
    inputs: tuple[InputField, ...]
    outputs: tuple[OutputField, ...]
    options: tuple[OptionField, ...]
    needs: tuple[Need, ...] = ()
    lets: tuple[Let, ...] = ()
    tables: tuple[Table, ...] = ()
    nodes: tuple[Node, ...]
    streams: tuple[Stream, ...]
    walks: tuple[Walk, ...]
    machines: tuple[Machine, ...]
    folded: tuple[tuple[str, str], ...] = ()
    placement: Placement | None = None
    hops: tuple[Hop, ...] = ()
    regions: tuple[Region, ...] = ()
    uncaptured: tuple[Uncaptured, ...] = ()
    pools: tuple[PagePool, ...] = ()
    memory: tuple[MemoryRow, ...] = ()
    capacity: Capacity | None = None
