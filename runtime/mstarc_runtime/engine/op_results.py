"""What an op of a device node has returned, held against its signature in the spec.

A module that returns another shape or dtype than its spec says would be emitted, sent or kept as it
is, and nobody would know why the sound is short. So the first time that an op returns something of
a new shape it is looked at: as many results, of the types, with the fixed dims, and with the free
dims that its arguments have. What is right is known again by its shapes; a captured region is
looked at when it is recorded, and a replay costs nothing.

Not here: rows of packed values, which are counted where they are kept (`batch.rows_of`).
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mstarc_runtime.engine.dtypes import dtype_name, torch_dtype
from mstarc_runtime.plan_api import Maybe, Signature

# Shapes of one op that are known to be right, at most: prompts have many lengths.
_MOST = 256

Given = Callable[..., Any]


class WrongResult(Exception):
    """An op has returned something else than its spec declares."""

    def __init__(self, node: str, op: str, message: str, notes: Sequence[str]) -> None:
        super().__init__(f"`{node}.{op}` {message}")
        self.node = node
        self.op = op
        self.notes = tuple(notes)


@dataclass(frozen=True, slots=True)
class _Type:
    """A tensor's type; `dims` are numbers, or expressions over free dims. `text`: as the spec."""

    text: str
    dtype: str
    dims: tuple[str, ...]
    may_be_none: bool

    @property
    def is_free(self) -> bool:
        return not all(dim.isdigit() for dim in self.dims)


class OpResults:
    """One op of a node. `packs`: free dims of its values are rows of all requests in one."""

    def __init__(
        self,
        node: str,
        op: str,
        signature: Signature,
        *,
        computed: torch.dtype,
        packs: bool,
    ) -> None:
        self._node = node
        self._op = op
        self._takes = [_type_of(text) for text in signature.takes]
        named = [text.partition(": ") for text in signature.gives]
        self._gives = [(name, type_text, _type_of(type_text)) for name, _, type_text in named]
        self._computed = computed
        self._packs = packs
        self._right: set[Any] = set()

    def checked(self, method: Given) -> Given:
        """The method, with a look at what it returns."""

        def call(context: Any, *arguments: Any, **named: Any) -> Any:
            given = method(context, *arguments, **named)
            # A piece of a prompt that is not the last returns nothing that anybody reads.
            if not getattr(context, "is_partial", False):
                self.check(given, arguments)
            return given

        return call

    def check(self, given: Any, arguments: Sequence[Any], leading: int = 1) -> None:
        """Raises WrongResult. `leading` dims stand in front of the spec's: the batch, contexts."""
        parts = given if isinstance(given, tuple) else (given,)
        key = (leading, *map(_form, parts), *map(_form, arguments))
        if key in self._right:
            return
        if len(parts) != len(self._gives) and (self._gives or given is not None):
            raise self._wrong(
                f"returned {_kind(given)}, and it has {_results(len(self._gives))}",
                [f"declared: {', '.join(f'`{n}: {t}`' for n, t, _ in self._gives) or 'nothing'}"],
            )
        sizes = self._sizes(arguments, leading)
        for (name, text, type_), part in zip(self._gives, parts, strict=False):
            if type_ is not None:
                self._check_part(name, text, type_, part, leading, sizes)
        if len(self._right) < _MOST:
            self._right.add(key)

    def _check_part(
        self,
        name: str,
        text: str,
        type_: _Type,
        part: Any,
        leading: int,
        sizes: Mapping[str, int],
    ) -> None:
        if type_.may_be_none and part is None:
            return
        value = part.value if isinstance(part, Maybe) else part
        if not isinstance(value, Tensor):
            raise self._wrong(
                f"returned {_kind(part)} as `{name}`", [f"declared: `{name}: {text}`"]
            )
        # Rows of all requests stand in one dim, which differs from call to call.
        is_packed = self._packs and type_.is_free and leading == 1
        dims = type_.dims[1:] if is_packed else type_.dims
        wanted = [_size(dim, sizes) for dim in dims]
        found = list(value.shape[1 if is_packed else leading :])
        is_shape = value.dim() == len(wanted) + (1 if is_packed else leading) and all(
            size in (None, at) for size, at in zip(wanted, found, strict=True)
        )
        dtype = torch_dtype(type_.dtype, self._computed)
        # Where nodes compute in bf16, what they pass on as f32 may be in that.
        is_dtype = value.dtype == dtype or (dtype, value.dtype) == (torch.float32, self._computed)
        if is_shape and is_dtype:
            return
        front = ["rows"] if is_packed else ["batch", "contexts"][:leading]
        shown = ", ".join([*front, *map(_shown, wanted, dims)])
        what = "shape" if is_dtype else "dtype" if is_shape else "shape and dtype"
        raise self._wrong(
            f"returned `{name}` of another {what} than the spec declares",
            [
                f"declared: `{name}: {text}`, here {dtype_name(dtype)}[{shown}]",
                f"returned: {dtype_name(value.dtype)}[{', '.join(map(str, value.shape))}]",
            ],
        )

    def _sizes(self, arguments: Sequence[Any], leading: int) -> dict[str, int]:
        """Free dims of this call, by name."""
        sizes: dict[str, int] = {}
        for type_, argument in zip(self._takes, arguments, strict=False):
            value = argument.value if isinstance(argument, Maybe) else argument
            if type_ is None or not isinstance(value, Tensor):
                continue
            is_packed = self._packs and type_.is_free and leading == 1
            dims = type_.dims[1:] if is_packed else type_.dims
            for dim, size in zip(dims, value.shape[value.dim() - len(dims) :], strict=False):
                if dim.isidentifier():
                    sizes[dim] = size
        return sizes

    def _wrong(self, message: str, notes: Sequence[str]) -> WrongResult:
        return WrongResult(self._node, self._op, message, notes)


def results_of(
    node: str, signatures: Mapping[str, Signature], *, computed: torch.dtype, packs: bool
) -> dict[str, OpResults]:
    """The ops of a node whose results are looked at, by name."""
    return {
        op: OpResults(node, op, signature, computed=computed, packs=packs)
        for op, signature in signatures.items()
    }


def _type_of(text: str) -> _Type | None:
    """The type that stands in a signature; None for what is no tensor.

    >>> _type_of("f32[P + 2, 64] or none")
    _Type(text='f32[P + 2, 64] or none', dtype='f32', dims=('P + 2', '64'), may_be_none=True)
    >>> _type_of("text")
    """
    plain = text.removesuffix(" or none")
    dtype, _, dims = plain.removesuffix("]").partition("[")
    try:
        torch_dtype(dtype)
    except KeyError:
        return None
    return _Type(text, dtype, tuple(dims.split(", ")) if dims else (), plain != text)


def _form(value: Any) -> Any:
    """By what a value that is right is known again."""
    if isinstance(value, Tensor):
        return value.shape, value.dtype
    return (_form(value.value), "maybe") if isinstance(value, Maybe) else type(value)


def _size(dim: str, sizes: Mapping[str, int]) -> int | None:
    """What a dim comes to; None where that is not known here.

    >>> _size("(P * 2) + 2", {"P": 3}), _size("?", {}), _size("Q", {"P": 3})
    (8, None, None)
    """
    if dim.isdigit():
        return int(dim)
    try:
        return _value(ast.parse(dim, mode="eval").body, sizes)
    except (SyntaxError, KeyError):
        return None


def _value(node: ast.expr, sizes: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(int(value)):
            return value
        case ast.Name(name):
            return sizes[name]
        case ast.BinOp(left, operator, right):
            one, other = _value(left, sizes), _value(right, sizes)
            match operator:
                case ast.Add():
                    return one + other
                case ast.Sub():
                    return one - other
                case ast.Mult():
                    return one * other
                case ast.FloorDiv():
                    return one // other
                case ast.Mod():
                    return one % other
    raise AssertionError(f"no dim is `{ast.unparse(node)}`")


def _shown(size: int | None, dim: str) -> str:
    if size is None or dim.isdigit():
        return dim
    return f"{dim} = {size}"


def _kind(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"{len(value)} values"
    return "nothing" if value is None else f"`{type(value).__name__}`"


def _results(count: int) -> str:
    return "none" if not count else "1 result" if count == 1 else f"{count} results"
