"""The layers of the expert that acts as a chain of our own kernels, where there are few rows.

Which way a pass goes depends on the device, the sizes and the number of rows alone, never on what
a request holds.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from mstarc_runtime.attention.backend import Placing
from mstarc_runtime.engine.context import KVContext
from mstarc_runtime.layers.config import required
from mstarc_runtime.layers.linear import Linear
from mstarc_runtime.models.pi05.gemma import EPS, Timed, TimedLayer, Turns

if TYPE_CHECKING:
    from mstarc_runtime.kernels.timed_stack import (
        EndMatrices,
        LayerMatrices,
        StackSizes,
        TimedRows,
        TimedStack,
    )


class StreamedLayers:
    """Stacks by requests and rows, made at first use."""

    def __init__(
        self, layers: Iterable[nn.Module], into: Linear, back: Linear, sizes: Mapping[str, Any]
    ) -> None:
        self._layers = list(layers)
        self._into, self._back = into, back
        self._heads = int(required(sizes, "num_attention_heads"))
        self._kv_heads = int(required(sizes, "num_key_value_heads"))
        self._head_dim = int(required(sizes, "head_dim"))
        self._stacks: dict[tuple[int, int], TimedStack | None] = {}

    def velocity(
        self, ctx: KVContext, x: Tensor, times: Sequence[Timed], turns: Turns
    ) -> Tensor | None:
        """What all layers, with what is in front of them and behind, make of actions `x`
        f32[B, H, A]; None if there are no kernels for it.

        `times` are those of each layer's two norms and of the norm behind them.
        """
        if ctx.device.type != "cuda" or ctx.placing(0) is None:
            return None
        stack = self._stack(ctx.batch, x.shape[1])
        if stack is None:
            return None
        scale = self._head_dim**-0.5
        made = stack.run(
            x.flatten(0, 1).float().contiguous(),
            [_rows(time) for time in times],
            turns,
            lambda layer: _there(ctx.placing(layer)),
            lambda layer, q: ctx.attend_placed(layer, q, scale=scale).flatten(1),
        )
        return made.view(x.shape)

    def _stack(self, batch: int, each: int) -> "TimedStack | None":
        if (batch, each) not in self._stacks:
            from mstarc_runtime.kernels.timed_stack import Cuts, TimedStack, is_served

            layers, ends, sizes, cuts = self._matrices(), self._ends(), self._sizes(), Cuts()
            served = is_served(layers[0], ends, sizes, batch=batch, each=each, cuts=cuts)
            self._stacks[(batch, each)] = (
                TimedStack(layers, ends, sizes, batch=batch, each=each, cuts=cuts)
                if served
                else None
            )
        return self._stacks[(batch, each)]

    def _matrices(self) -> "list[LayerMatrices]":
        from mstarc_runtime.kernels.timed_stack import LayerMatrices

        made = []
        for layer in self._layers:
            assert isinstance(layer, TimedLayer)
            made.append(
                LayerMatrices(
                    qkv=layer.qkv.weight,
                    out=layer.out.weight,
                    gate_up=layer.gate_up.weight,
                    down=layer.down.weight,
                )
            )
        return made

    def _ends(self) -> "EndMatrices":
        from mstarc_runtime.kernels.timed_stack import EndMatrices

        into, back = self._into, self._back
        assert into.bias is not None and back.bias is not None
        return EndMatrices(
            into=into.weight, into_bias=into.bias, back=back.weight, back_bias=back.bias
        )

    def _sizes(self) -> "StackSizes":
        from mstarc_runtime.kernels.timed_stack import StackSizes

        return StackSizes(
            heads=self._heads, kv_heads=self._kv_heads, head_dim=self._head_dim, eps=EPS
        )


def _there(placing: Placing | None) -> Placing:
    assert placing is not None, "one layer is served as another"
    return placing


def _rows(time: Timed) -> "TimedRows":
    from mstarc_runtime.kernels.timed_stack import TimedRows

    assert time.rows.shift is not None, "a time moves rows, too"
    return TimedRows(scale=time.rows.scale, shift=time.rows.shift, gate=time.gate)
