"""Rows of calls that have as many as a request's options say, such as the cells of a drawing.

    %v: bf16[(($height // 16) * ($width // 16)) + 2, 64] = llm.denoise(%x, …) on main

has 4,098 rows where `height` and `width` are 1,024. Other free sizes, such as a prompt's, only the
request itself knows.
"""

from collections.abc import Iterator, Mapping

from mstarc.analysis.rates import expected_bound
from mstarc.analysis.types import types_in
from mstarc.ir.exprs import LetRef, Local, Option
from mstarc.ir.graph import Call, Program
from mstarc.ir.types import Dim, DimBinary, DimConst, DimVar, OptionalType, TensorType, Type
from mstarc.ir.walking import statements_of


def rows_by_site(program: Program, options: Mapping[str, float] | None = None) -> dict[str, int]:
    """Rows of each call on a KV cache whose new rows have a size that options decide.

    `options` go before the defaults of the spec.
    """
    cached = {node.name for node in program.nodes if node.engine == "kv_cache"}
    found: dict[str, int] = {}
    for _, types, body in types_in(program):
        for call in statements_of(body):
            if not isinstance(call, Call) or call.node not in cached:
                continue
            values = [types.get(a.name) for a in call.arguments if isinstance(a, Local)]
            values += [result.type for result in call.results if result is not None]
            sizes = [size for type_ in values for size in _leading(program, type_, options or {})]
            if sizes:
                found[call.site] = max(sizes)
    return found


def _leading(program: Program, type_: Type | None, options: Mapping[str, float]) -> Iterator[int]:
    """The size of the first dim of a tensor of rows, where options decide it."""
    if isinstance(type_, OptionalType):
        type_ = type_.item
    if not isinstance(type_, TensorType) or len(type_.dims) != 2:
        return
    first = type_.dims[0]
    size = None if isinstance(first, DimConst) else _size(program, first, options)
    if size is not None and size >= 1.0:
        yield round(size)


def _size(program: Program, dim: Dim, options: Mapping[str, float]) -> float | None:
    """A size, or None where it is not the options that decide it."""
    match dim:
        case DimConst(value):
            return float(value)
        case DimVar(name, request=True):
            is_option = any(option.name == name for option in program.options)
            return expected_bound(program, Option(name) if is_option else LetRef(name), options)
        case DimBinary(operator, left, right):
            a, b = _size(program, left, options), _size(program, right, options)
            if a is None or b is None:
                return None
            return _computed(operator, a, b)
        case _:
            return None


def _computed(operator: str, a: float, b: float) -> float | None:
    match operator:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "//":
            return a // b if b else None
        case "%":
            return a % b if b else None
        case _:
            return None
