"""Values between processes: a description, and a frame of raw bytes for what arrays hold.

`pack_value` takes tensors, sound, media, parts of an input and plain values; `unpack_value` gives
back what it was given. Nothing is pickled.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mstarc_runtime.engine.dtypes import dtype_name, torch_dtype
from mstarc_runtime.plan_api import Audio, Maybe, Media, Part, parts_in_order

Frame = bytes | memoryview


class Shape(msgspec.Struct, array_like=True, frozen=True):
    """What a frame holds: `kind` is tensor, maybe, array, audio (with `rate`), media, parts, or
    plain (no frame). `plain` of parts describes each part; their frames lie one behind the other,
    as do the value of a maybe and where it is there.
    """

    kind: str
    dtype: str = ""
    dims: tuple[int, ...] = ()
    plain: Any = None


def tensor_frame(tensor: Tensor) -> bytes:
    """The bytes of a tensor, a copy."""
    host = tensor.detach().cpu()
    # numpy does not know the type: its bits will do.
    bits = host.view(torch.int16) if host.dtype == torch.bfloat16 else host
    return bits.numpy().tobytes()


def lent_frame(host: Tensor) -> memoryview:
    """The memory of a tensor of the host which nobody else has from now on, as a frame."""
    bits = host.view(torch.int16) if host.dtype == torch.bfloat16 else host
    array: NDArray[Any] = bits.contiguous().numpy()
    return array.data.cast("B")


def tensor_of(frame: Frame, dtype: str, dims: Sequence[int]) -> Tensor:
    """The tensor whose bytes a frame holds: a copy, but of memory that was lent."""
    if not len(frame):
        return torch.zeros(tuple(dims), dtype=torch_dtype(dtype))
    is_lent = isinstance(frame, memoryview) and not frame.readonly
    raw = torch.frombuffer(frame if is_lent else bytearray(frame), dtype=torch.uint8)
    return raw.view(torch_dtype(dtype)).view(tuple(dims))


def pack_value(value: Any) -> tuple[Shape, bytes | None]:
    """A host value as a description and, for arrays, a frame."""
    match value:
        case Tensor():
            shape = Shape("tensor", dtype_name(value.dtype), tuple(value.shape))
            return shape, tensor_frame(value)
        case Maybe(value=value, there=there):
            shape = Shape("maybe", dtype_name(value.dtype), tuple(value.shape), there.numel())
            return shape, tensor_frame(value) + tensor_frame(there)
        case np.ndarray():
            tensor = torch.from_numpy(np.ascontiguousarray(value))
            shape = Shape("array", dtype_name(tensor.dtype), tuple(tensor.shape))
            return shape, tensor_frame(tensor)
        case Audio(samples=samples, rate=rate):
            tensor = torch.as_tensor(samples, dtype=torch.float32)
            return Shape("audio", "f32", tuple(tensor.shape), rate), tensor_frame(tensor)
        case Media(kind=kind, content=content):
            return Shape("media", plain=kind), content
        case (Part(), *_):
            return _pack_parts(value)
        case None | bool() | int() | float() | str() | list() | tuple() | dict():
            return Shape("plain", plain=value), None
        case _:
            raise TypeError(f"a {type(value).__name__} can't be sent to another process")


def unpack_value(shape: Shape, frame: Frame | None) -> Any:
    """What `pack_value` was given."""
    if shape.kind == "plain":
        return shape.plain
    assert frame is not None, "a value's frame is missing"
    if shape.kind == "media":
        return Media(kind=shape.plain, content=bytes(frame))
    if shape.kind == "maybe":
        end = len(frame) - shape.plain
        there = tensor_of(frame[end:], "bool", (shape.plain,))
        return Maybe(tensor_of(frame[:end], shape.dtype, shape.dims), there)
    if shape.kind == "parts":
        return _unpack_parts(shape, frame)
    tensor = tensor_of(frame, shape.dtype, shape.dims)
    match shape.kind:
        case "array":
            return tensor.numpy()
        case "audio":
            return Audio(samples=tensor.numpy(), rate=int(shape.plain))
        case _:
            return tensor


def _pack_parts(parts: Sequence[Part]) -> tuple[Shape, bytes]:
    described: list[Any] = []
    frames: list[bytes] = []
    for part in parts:
        shape, frame = pack_value(part.value)
        content = msgspec.to_builtins(shape)
        described.append([part.kind, part.role, content, None if frame is None else len(frame)])
        frames += [] if frame is None else [frame]
    return Shape("parts", plain=described), b"".join(frames)


def _unpack_parts(shape: Shape, frame: Frame) -> tuple[Part, ...]:
    parts: list[Part] = []
    start = 0
    for kind, role, content, length in shape.plain:
        end = start + (length or 0)
        value = unpack_value(
            msgspec.convert(content, Shape), None if length is None else frame[start:end]
        )
        parts.append(Part(kind=kind, value=value, role=role))
        start = end
    return parts_in_order(parts)
