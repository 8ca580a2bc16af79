"""What a run leaves on the device → the host: flags and emitted values, copied behind the step.

The copies are asked for when the step is launched and waited for when it lands, so that the device
has the next step meanwhile.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mstarc_runtime.engine.batch_values import BatchValues
from mstarc_runtime.engine.effects import Effect, Emitted, Sent, SentPacked
from mstarc_runtime.engine.flag_columns import COLUMNS
from mstarc_runtime.engine.pass_log import as_array

if TYPE_CHECKING:
    from mstarc_runtime.engine.options import OptionTable


class ReadBack(BatchValues):
    """A batch's flags, bool[bucket, COLUMNS], and what leaves the device of each run."""

    def __init__(
        self,
        bucket: int,
        *,
        padding_slot: int,
        device: torch.device,
        options: "OptionTable",
        computed: torch.dtype,
    ) -> None:
        super().__init__(
            bucket, padding_slot=padding_slot, device=device, options=options, computed=computed
        )
        self.flags = torch.zeros((bucket, COLUMNS), dtype=torch.bool, device=device)
        # Without outputs that nobody hears: those stay on the device.
        self.leaving: list[Effect] = []
        self._is_host = device.type == "cpu"
        # Where a read-back puts the flags; pinned, so that the copy need not wait for the step.
        self._flags_copy = (
            self.flags if self._is_host else torch.zeros_like(self.flags, device="cpu").pin_memory()
        )
        self._host_flags: NDArray[np.bool_] = self._flags_copy.numpy()
        self._has_come = None if self._is_host else torch.cuda.Event()
        self._copies: dict[int, Tensor] = {}
        self._views: list[NDArray[Any]] | None = None
        self.expected = b""

    def flags_are_expected(self) -> bool:
        """Whether every row goes on, sends all that it may, and ends no chunk."""
        return self._host_flags[: self.size].tobytes() == self.expected

    def host_flags(self) -> NDArray[np.bool_]:
        """[size, COLUMNS]"""
        return self._host_flags[: self.size]

    def foresee(self) -> None:
        """Takes the flags to be those that are expected, and notes where the device is."""
        assert self._has_come is not None, "a host has them at once"
        if self.expected:
            expected = np.frombuffer(self.expected, np.bool_)
            self._host_flags[: self.size] = expected.reshape(self.size, COLUMNS)
        self._has_come.record(torch.cuda.current_stream(self.device))

    def begin_read_back(self) -> None:
        """Asks for the flags, and for what must leave the device, behind the step."""
        if self._has_come is None:
            return
        self._flags_copy.copy_(self.flags, non_blocking=True)
        for effect in self.leaving:
            if isinstance(effect, Emitted):
                self._copy_out(effect.value)
            elif isinstance(effect, (Sent, SentPacked)):
                for tensor in (effect.values, effect.marks):
                    if tensor is not None:
                        self._copy_out(tensor)
        self._has_come.record(torch.cuda.current_stream(self.device))

    def has_come(self) -> bool:
        """Whether it is there."""
        return self._has_come is None or self._has_come.query()

    def end_read_back(self) -> None:
        """Waits until it has come."""
        if self._has_come is not None:
            self._has_come.synchronize()

    def on_host(self, value: Tensor) -> Tensor:
        """An effect's value once it has come: [as on the device], to be copied before the next."""
        return value if self._is_host else self._copies[id(value)]

    def lend(self) -> None:
        """Leaves what `on_host` gave to who has it: the next copies go elsewhere."""
        self._copies.clear()
        self._views = None

    def output_frames(self) -> list[bytes]:
        """The bytes of every emitted value's rows, in order. What is not packed."""
        views = self._views
        if views is None:
            views = self._views = [
                as_array(self.on_host(effect.value)[: self.size])
                for effect in self.leaving
                if type(effect) is Emitted
            ]
        return [view.tobytes() for view in views]

    def _copy_out(self, value: Tensor) -> None:
        copy = self._copies.get(id(value))
        if copy is None or copy.shape != value.shape or copy.dtype != value.dtype:
            copy = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
            self._copies[id(value)] = copy
        copy.copy_(value, non_blocking=True)

    def _upload(self, target: Tensor, numbers: NDArray[Any]) -> None:
        """Without waiting for the device."""
        source = torch.from_numpy(numbers)
        target.copy_(source if self._is_host else source.pin_memory(), non_blocking=True)
