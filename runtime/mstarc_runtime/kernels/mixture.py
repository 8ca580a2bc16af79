"""The launches of a mixture's kernels over one layer's weights, and how each is cut.

`ExpertWeights` says what there is, `Mixture` runs it for a fixed number of rows.
"""

from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from mstarc_runtime.kernels.chosen_experts import choose_experts
from mstarc_runtime.kernels.experts import enter_few, leave_few
from mstarc_runtime.kernels.one_row_experts import choose_one, enter_one, leave_one
from mstarc_runtime.kernels.several_choices import choose_several


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertWeights:
    """A mixture's weights: `router` [E, W]; `gate_up` [E 2 I, W], each expert's gate first; `down`
    [E W, I]. Of a block that all rows take: `shared_gate` [1, W], `shared_gate_up` [2 S, W] and
    `shared_down` [W, S]. `normed`: shares are among the chosen alone."""

    router: Tensor
    gate_up: Tensor
    down: Tensor
    chosen: int
    normed: bool
    shared_gate: Tensor | None = None
    shared_gate_up: Tensor | None = None
    shared_down: Tensor | None = None

    @property
    def experts(self) -> int:
        return self.router.shape[0]

    @property
    def width(self) -> int:
        return self.router.shape[1]

    @property
    def inner(self) -> int:
        return self.down.shape[1]

    @property
    def pieces(self) -> int:
        return 0 if self.shared_down is None else self.shared_down.shape[1] // self.inner

    def are_served(self) -> bool:
        """Whether the kernels can cut matrices of these sizes and types."""
        whole = self.shared_down is None or self.shared_down.shape[1] % self.inner == 0
        return (
            self.gate_up.dtype == torch.bfloat16
            and self.experts & (self.experts - 1) == 0
            and self.experts >= 16
            and self.inner % 64 == 0
            and self.width % 128 == 0
            and whole
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """How a kernel is cut: rows of weights a block, columns a pass, warps, passes under way.

    `several`: the choice of two to four rows, without the tensor cores."""

    rows: int
    columns: int
    warps: int
    stages: int = 3
    several: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuts:
    """The three kernels'. `split`: blocks along the router's columns."""

    choose: Cut
    enter: Cut
    leave: Cut
    split: int = 1


def cuts_of(weights: ExpertWeights, *, batch: int) -> Cuts:
    """The cut for a number of rows, measured on one H200 with the mixtures of Qwen3-Omni."""
    width, inner = weights.width, weights.inner
    if batch == 1:
        return Cuts(
            choose=Cut(rows=1, columns=_columns(width, 2048), warps=1),
            # A Thinker's layer: -1.2 µs for one row a block, held whole
            enter=Cut(rows=2, columns=_columns(width, 1024), warps=1),
            # -1.2 µs for two rows a block, of which half as many have room beside `enter`
            leave=Cut(rows=1, columns=_columns(inner, 256), warps=4),
        )
    split = 4 if width % 512 == 0 and batch > 4 else 1
    choose = Cut(rows=16, columns=_columns(width // split, 128), warps=4 if batch <= 32 else 8)
    if batch <= 4:
        # In µs, and with the tensor cores: Thinker's two rows 5.5 for 10.7, four 5.9 for 11.0;
        # Talker's 4.4 for 8.8, 4.4 for 8.5.
        choose = Cut(rows=1, columns=width, warps=4, several=True)
    few = 4 < batch <= 16
    return Cuts(
        choose=choose,
        enter=Cut(
            rows=_columns(inner, 64),
            columns=_columns(width, 128 if few else 64),
            warps=4,
            stages=3 if few else 4,
        ),
        leave=Cut(rows=_columns(width, 64), columns=_columns(inner, 128), warps=4),
        split=split,
    )


def _columns(size: int, most: int) -> int:
    """The greatest power of two that divides `size`, at most `most`."""
    return min(size & -size, most)


class Mixture:
    """The launches over one layer's weights, for a fixed number of rows.

    `scratch` is another layer's of the same sizes, as long as the two follow one another.
    """

    def __init__(
        self,
        weights: ExpertWeights,
        *,
        batch: int,
        chained: bool,
        cuts: Cuts | None = None,
        scratch: "Scratch | None" = None,
    ) -> None:
        self.weights, self.batch, self.chained = weights, batch, chained
        self.cuts = cuts or cuts_of(weights, batch=batch)
        self.width = 1 if batch == 1 else max(16, triton.next_power_of_2(batch))
        self.tiles = weights.width // self.cuts.leave.rows
        self.scratch = scratch or Scratch(
            weights, batch=batch, width=self.width, split=self.cuts.split
        )

    def __call__(
        self,
        h: Tensor,
        *,
        squares: Tensor,
        residual: Tensor,
        gain: Tensor,
        squares_out: Tensor,
        eps: float,
    ) -> None:
        """Adds what the experts make of `h` bf16[B, W] to `residual` f32[B, W], and overwrites `h`
        with what comes behind, times `gain` [W]; `squares_out` f32[tiles, B]."""
        self.choose(h, squares, eps=eps)
        self.enter(h, squares, eps=eps)
        self.leave(h, residual=residual, gain=gain, squares_out=squares_out)

    def choose(self, h: Tensor, squares: Tensor, *, eps: float) -> None:
        w, s, cut = self.weights, self.scratch, self.cuts.choose
        gate = w.router if w.shared_gate is None else w.shared_gate
        tiles = w.experts // cut.rows + (1 if w.pieces else 0)
        if self.batch == 1:
            choose_one[(tiles,)](
                h, squares, squares.shape[0], w.router, gate, s.scores, eps, W=w.width,
                EXPERTS=w.experts, ROWS=cut.rows, COLUMNS=cut.columns,
                PARTS=triton.next_power_of_2(squares.shape[0]), num_warps=cut.warps,
                **self._launch,
            )  # fmt: skip
            return
        if cut.several:
            slots = triton.next_power_of_2(w.chosen + w.pieces)
            choose_several[(tiles,)](
                h.view(torch.int64), squares, squares.shape[0], w.router.view(torch.int64),
                gate.view(torch.int64), s.logits, s.arrived, s.ids, s.shares, s.places, s.wanted,
                eps, B=self.batch, WIDTH=self.width, W=w.width, EXPERTS=w.experts,
                CHOSEN=w.chosen, PIECES=w.pieces, SLOTS=slots, NORMED=w.normed, ROWS=cut.rows,
                PARTS=triton.next_power_of_2(squares.shape[0]), num_warps=cut.warps,
                **self._launch,
            )  # fmt: skip
            return
        choose_experts[(tiles, self.cuts.split)](
            h, squares, squares.shape[0], w.router, gate, s.logits, s.arrived, s.ids, s.shares,
            s.places, s.wanted, eps, B=self.batch, WIDTH=self.width, W=w.width,
            EXPERTS=w.experts, CHOSEN=w.chosen, PIECES=w.pieces, NORMED=w.normed, ROWS=cut.rows,
            COLUMNS=cut.columns, SPLIT=self.cuts.split,
            PARTS=triton.next_power_of_2(squares.shape[0]), num_warps=cut.warps, **self._launch,
        )  # fmt: skip

    def enter(self, h: Tensor, squares: Tensor, *, eps: float) -> None:
        w, s, cut = self.weights, self.scratch, self.cuts.enter
        shared = w.gate_up if w.shared_gate_up is None else w.shared_gate_up
        grid = (w.inner // cut.rows, s.most)
        if self.batch == 1:
            enter_one[grid](
                h, w.gate_up, shared, s.scores, s.ids, s.shares, s.act, CHOSEN=w.chosen,
                SLOTS=triton.next_power_of_2(s.most), NORMED=w.normed, ROWS=cut.rows,
                COLUMNS=cut.columns, WARPS=cut.warps, num_warps=cut.warps, **self._sizes,
            )  # fmt: skip
            return
        given = (h, squares, squares.shape[0], w.gate_up, shared)
        more = {
            **self._sizes, "ROWS": cut.rows, "COLUMNS": cut.columns,
            "PARTS": triton.next_power_of_2(squares.shape[0]), "num_warps": cut.warps,
        }  # fmt: skip
        enter_few[grid](
            *given, s.places, s.wanted, s.act, eps, STAGES=cut.stages, **self._rows, **more
        )

    def leave(self, h: Tensor, *, residual: Tensor, gain: Tensor, squares_out: Tensor) -> None:
        w, s, cut = self.weights, self.scratch, self.cuts.leave
        given = (s.act, w.down, w.down if w.shared_down is None else w.shared_down)
        made = (residual, gain, h, squares_out)
        more = {
            **self._sizes, "ROWS": cut.rows, "COLUMNS": cut.columns, "num_warps": cut.warps
        }  # fmt: skip
        if self.batch == 1:
            slots = triton.next_power_of_2(w.chosen + w.pieces)
            leave_one[(self.tiles,)](
                *given, s.ids, s.shares, *made, CHOSEN=w.chosen, SLOTS=slots, **more
            )
            return
        leave_few[(self.tiles, s.most)](
            *given, s.places, s.wanted, s.shares, s.made, s.left, *made,
            STAGES=cut.stages, **self._rows, **more,
        )  # fmt: skip

    @property
    def _launch(self) -> dict[str, bool]:
        return {"CHAINED": self.chained, "launch_pdl": self.chained}

    @property
    def _sizes(self) -> dict[str, int]:
        w = self.weights
        return {
            **self._launch, "W": w.width, "INNER": w.inner, "EXPERTS": w.experts,
            "PIECES": w.pieces,
        }  # fmt: skip

    @property
    def _rows(self) -> dict[str, int]:
        w = self.weights
        return {"B": self.batch, "WIDTH": self.width, "SLOTS": w.chosen + w.pieces}


class Scratch:
    """What the kernels of a layer leave for one another."""

    def __init__(self, weights: ExpertWeights, *, batch: int, width: int, split: int) -> None:
        device, experts, pieces = weights.gate_up.device, weights.experts, weights.pieces
        slots = weights.chosen + pieces
        # Experts that a batch may want at the most.
        self.most = slots if batch == 1 else min(batch * weights.chosen, experts) + pieces

        def ints(*dims: int) -> Tensor:
            return torch.zeros(dims, dtype=torch.int32, device=device)

        def floats(*dims: int) -> Tensor:
            return torch.zeros(dims, dtype=torch.float32, device=device)

        self.scores = floats(experts + 2)
        self.logits = floats(split, experts + 1, width)
        self.ids, self.shares = ints(batch, slots), floats(batch, slots)
        # Of rows that the bucket has not, `choose_several` leaves them as they are.
        self.places = ints(experts + pieces, width).fill_(-1)
        self.wanted = ints(1 + experts + pieces)
        self.act = torch.zeros(
            batch, slots, weights.inner, dtype=weights.gate_up.dtype, device=device
        )
        self.made = floats(batch, slots, weights.width if batch > 1 else 1)
        self.arrived, self.left = ints(1), ints(weights.width)
