"""Attention by FlashInfer on an NVIDIA GPU; bfloat16 and float16.

A step has one decode wrapper a bucket, in FlashInfer's CUDA-graph form: its page lists live at
fixed addresses and are refreshed from pinned memory, so that a captured region replays over them.
Planning is host work and can't be captured: `update` plans before every replay, and only when
pages have changed, since a plan of the CUDA-core kernel depends on pages alone. Nothing is read
back: page lists are given from the host.

Packed calls plan a prefill wrapper once for all layers, and two where all requests begin with the
same pages, which are then read once (`levels`). Wrappers take turns, because one keeps a
single pinned workspace that a copy under way may still read.

The number of query heads and the scale are those of the first `attend`; so a region's first run is
an eager one, which warms up what capture needs anyway.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mstarc_runtime.attention.backend import Attention, JoinedHeads
from mstarc_runtime.attention.fixed_rows import FixedAttention
from mstarc_runtime.attention.levels import levels_of
from mstarc_runtime.attention.mask import Mask, see_all, visible_rows
from mstarc_runtime.kvcache.cache import KVCache
from mstarc_runtime.kvcache.fixed import FixedRows
from mstarc_runtime.kvcache.mirror import FixedMirror, MirroredArray, PackedMirror, StepMirror
from mstarc_runtime.kvcache.packed import PackedRows
from mstarc_runtime.kvcache.step import StepRows

_LAYOUT = "NHD"
_WORKSPACE_BYTES = 128 << 20
_WRAPPERS_IN_TURN = 2
# Query heads a key-value head for which the CUDA-core decode kernel exists.
_CUDA_CORE_GROUPS = (1, 2, 3, 4, 6, 8)


class FlashInferAttention:
    """The backend of one node's cache, whose calls run one after another on one CUDA stream."""

    row_by_row = False

    def __init__(self, cache: KVCache, *, levels: bool = True) -> None:
        # Here, because the package is not there without a GPU.
        import flashinfer

        assert cache.device.type == "cuda", "FlashInfer runs on CUDA devices"
        assert cache.dtype in (torch.bfloat16, torch.float16), f"no kernels for {cache.dtype}"
        self.library: Any = flashinfer
        self.cache = cache
        self.levels = levels
        # Zeroed, as the library asks for; shared, since calls don't overlap.
        self.workspace = torch.zeros(_WORKSPACE_BYTES, dtype=torch.uint8, device=cache.device)
        self._prefill: dict[str, list[Any]] = {}

    def plan_step(self, rows: StepRows, mirror: StepMirror) -> Attention:
        return _Step(self, rows, mirror)

    def plan_packed(self, rows: PackedRows, mirror: PackedMirror, mask: Mask) -> Attention:
        return _Packed(self, rows, mirror, mask)

    def plan_fixed(self, rows: FixedRows, mirror: FixedMirror, mask: Mask) -> Attention:
        return FixedAttention(self.cache, rows, mirror, mask, row_by_row=False)

    def prefill_wrapper(self, kernels: str, *, is_shared: bool = False) -> Any:
        """The next wrapper in turn over `kernels`, `fa2` or `fa3`, for pages of one or several."""
        wrappers = self._prefill.setdefault(f"{kernels}{' shared' if is_shared else ''}", [])
        if len(wrappers) < _WRAPPERS_IN_TURN:
            wrapper = self.library.BatchPrefillWithPagedKVCacheWrapper(
                self.workspace, _LAYOUT, backend=kernels
            )
            wrappers.append(wrapper)
            return wrapper
        wrappers.append(wrappers.pop(0))
        return wrappers[-1]


class _Step:
    """Decode at one bucket."""

    def __init__(self, backend: FlashInferAttention, rows: StepRows, mirror: StepMirror) -> None:
        self._backend = backend
        self._cache = backend.cache
        self._rows = rows
        self._mirror = mirror
        self._pages_version = -1
        indptr, _ = rows.page_lists()
        self._indptr = MirroredArray(indptr, self._cache.device)
        self._indptr_host = torch.from_numpy(indptr)
        self._indices = MirroredArray(rows.page_indices, self._cache.device)
        self._batch_indices = torch.arange(
            rows.bucket, dtype=torch.int32, device=self._cache.device
        )
        self._wrapper: Any = None
        self._heads = 0
        self._scale = 0.0
        self._tensor_cores = False
        self._captured_plan: list[int] = []

    def update(self) -> None:
        if self._pages_version != self._rows.pages_version:
            self._pages_version = self._rows.pages_version
            self._rows.page_lists()
            self._indptr.update()
            self._indices.update(int(self._indptr_host[-1]))
        elif not self._tensor_cores:
            return
        if self._wrapper is not None:
            self._plan()

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, *, scale: float) -> Tensor:
        if self._wrapper is None:
            self._begin(q.shape[1], scale)
        assert (q.shape[1], scale) == (self._heads, self._scale), "a node's layers attend alike"
        pages = (self._cache.keys[layer], self._cache.values[layer])
        self._backend.library.append_paged_kv_cache(
            k,
            v,
            self._batch_indices,
            self._mirror.write_offsets,
            pages,
            self._indices.tensor,
            self._indptr.tensor,
            self._mirror.last_page_lengths,
            kv_layout=_LAYOUT,
        )
        out: Tensor = self._wrapper.run(q, pages)
        return out

    def _begin(self, heads: int, scale: float) -> None:
        """Makes the wrapper over the arrays' own memory and plans for the first time."""
        layout = self._cache.layout
        self._heads, self._scale = heads, scale
        self._tensor_cores = heads // layout.kv_heads not in _CUDA_CORE_GROUPS
        self._wrapper = self._backend.library.CUDAGraphBatchDecodeWithPagedKVCacheWrapper(
            self._backend.workspace,
            self._indptr.tensor,
            self._indices.tensor,
            self._mirror.last_page_lengths,
            _LAYOUT,
            use_tensor_cores=self._tensor_cores,
        )
        _, indices = self._rows.page_lists()
        self._wrapper.plan(
            self._indptr_host,
            torch.from_numpy(indices),
            torch.from_numpy(self._rows.last_page_lengths),
            *self._sizes(),
            **self._types(),
        )
        self._captured_plan = list(self._wrapper._plan_info)

    def _plan(self) -> None:
        count = int(self._indptr_host[-1])
        if self._tensor_cores:
            self._wrapper.plan(
                self._indptr_host,
                self._indices.tensor[:count],
                torch.from_numpy(self._rows.last_page_lengths),
                *self._sizes(),
                **self._types(),
            )
        else:
            self._backend.library.decode.fast_decode_plan(
                self._wrapper,
                self._indptr.tensor,
                self._indices.tensor[:count],
                self._mirror.last_page_lengths,
                *self._sizes(),
                **self._types(),
                global_override_indptr_cpu=self._indptr_host,
            )
        # A captured launch has the first plan's layout baked in.
        assert list(self._wrapper._plan_info) == self._captured_plan, "the plan's layout changed"

    def _sizes(self) -> tuple[int, int, int, int]:
        layout = self._cache.layout
        return self._heads, layout.kv_heads, layout.head_dim, layout.page_size

    def _types(self) -> dict[str, Any]:
        dtype = self._cache.dtype
        return {"q_data_type": dtype, "kv_data_type": dtype, "sm_scale": self._scale}


class _Packed:
    """One packed call, planned at its first layer."""

    def __init__(
        self, backend: FlashInferAttention, rows: PackedRows, mirror: PackedMirror, mask: Mask
    ) -> None:
        self._backend = backend
        self._cache = backend.cache
        self._rows = rows
        self._write_rows = mirror.write_rows
        self._mask = mask
        device = self._cache.device
        self._indptr = torch.from_numpy(rows.indptr).to(device)
        self._indices = torch.from_numpy(rows.indices).to(device)
        self._last_page_lengths = torch.from_numpy(rows.last_page_lengths).to(device)
        self._batch_indices = torch.from_numpy(rows.row_requests.astype(np.int32)).to(device)
        self._row_indices = torch.from_numpy(rows.row_indices.astype(np.int32)).to(device)
        self._wrapper: Any = None
        # Attends the pages with which all requests begin, where they are attended apart.
        self._shared: Any = None

    def update(self) -> None:
        pass

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, *, scale: float) -> Tensor:
        if self._wrapper is None:
            self._plan(q.shape[1], scale)
        pages = (self._cache.keys[layer], self._cache.values[layer])
        self._backend.library.append_paged_kv_cache(
            k,
            v,
            self._batch_indices,
            self._row_indices,
            pages,
            self._indices,
            self._indptr,
            self._last_page_lengths,
            kv_layout=_LAYOUT,
        )
        return self._attended(q, pages)

    def attend_joined(self, layer: int, parts: Sequence[JoinedHeads]) -> Tensor:
        from mstarc_runtime.kernels.place_heads import place

        if self._wrapper is None:
            self._plan(parts[0].count, parts[0].scale)
        pages = (self._cache.keys[layer], self._cache.values[layer])
        q = place(parts, keys=pages[0], values=pages[1], to=self._write_rows)
        return self._attended(q, pages).flatten(1)

    def _attended(self, q: Tensor, pages: tuple[Tensor, Tensor]) -> Tensor:
        out: Tensor
        if self._shared is None:
            out = self._wrapper.run(q, pages)
            return out
        out, weight = self._wrapper.run(q, pages, return_lse=True)
        seen, shared_weight = self._shared.run(q, pages, return_lse=True)
        self._backend.library.merge_state_in_place(out, weight, seen, shared_weight)
        return out

    def _plan(self, heads: int, scale: float) -> None:
        rows, layout = self._rows, self._cache.layout
        sizes = (heads, layout.kv_heads, layout.head_dim, layout.page_size)
        types = {
            "sm_scale": scale,
            "q_data_type": self._cache.dtype,
            "kv_data_type": self._cache.dtype,
        }
        indptr, indices = rows.indptr, self._indices
        lengths = rows.kv_lengths[rows.row_requests].astype(np.int64)
        framed = self._mask.kind == "frames" and not see_all(rows.row_indices, lengths, self._mask)
        if self._backend.levels and not framed:
            levels = levels_of(rows, self._cache.levels, page_size=layout.page_size)
            if levels is not None:
                indptr = levels.indptr
                indices = torch.from_numpy(levels.indices).to(self._cache.device)
                count = levels.shared.size
                self._shared = self._backend.prefill_wrapper("fa3", is_shared=True)
                # One request for the library, of all rows; each sees all of it.
                self._shared.plan(
                    torch.tensor([0, int(rows.row_indptr[-1])], dtype=torch.int32),
                    torch.tensor([0, count], dtype=torch.int32),
                    torch.from_numpy(levels.shared).to(self._cache.device),
                    torch.tensor([layout.page_size], dtype=torch.int32),
                    *sizes,
                    causal=False,
                    **types,
                )
        self._wrapper = self._backend.prefill_wrapper("fa2" if framed else "fa3")
        self._wrapper.plan(
            torch.from_numpy(rows.row_indptr),
            torch.from_numpy(indptr),
            indices,
            torch.from_numpy(rows.last_page_lengths),
            *sizes,
            causal=self._mask.kind == "causal",
            custom_mask=self._frame_mask() if framed else None,
            **types,
        )

    def _frame_mask(self) -> Tensor:
        """bool[sum of T * S]: what each request's rows see, one request after another."""
        rows = self._rows
        parts = [
            visible_rows(
                rows.row_indices[rows.row_indptr[request] : rows.row_indptr[request + 1]],
                int(rows.kv_lengths[request]),
                self._mask,
            ).reshape(-1)
            for request in range(rows.slots.size)
        ]
        return torch.from_numpy(np.concatenate(parts)).to(self._cache.device)
