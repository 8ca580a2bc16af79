"""Arrays for one call of many rows a request, packed one request after another."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mstarc_runtime.kvcache.tables import Counts, Keys, PageTables

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedRows:
    """Where R rows of B requests go, and what they attend.

    `positions`, `write_rows`, `row_slots`, `row_requests` and `row_indices` are i64[R]: position,
    row of the pool, slot, number of the request in this call, and index in the written context.
    `row_indptr` i32[B + 1] cuts the rows by request. `kv_lengths` i32[B] counts the rows of the
    context, those of this call included; `indptr` i32[B + 1], `indices` i32[indptr[B]] and
    `last_page_lengths` i32[B] are its pages.
    """

    slots: Int64s
    positions: Int64s
    write_rows: Int64s
    row_slots: Int64s
    row_requests: Int64s
    row_indices: Int64s
    row_indptr: Int32s
    kv_lengths: Int32s
    indptr: Int32s
    indices: Int32s
    last_page_lengths: Int32s

    @classmethod
    def build(
        cls,
        tables: PageTables,
        slots: Int64s,
        keys: Keys,
        counts: Counts,
        *,
        keep: bool,
        span: Counts | int | None,
    ) -> "PackedRows":
        """The arrays of a call for which there is room; with `keep`, its rows are counted.

        `span` says by how much positions advance instead of by the rows: then every row has the
        position at which the call begins.
        """
        size = tables.layout.page_size
        batch, total = slots.size, int(counts.sum())
        row_indptr = np.zeros(batch + 1, dtype=np.int32)
        np.cumsum(counts, out=row_indptr[1:])
        requests = np.repeat(np.arange(batch), counts)
        within = np.arange(total) - row_indptr[requests]
        indices = tables.lengths[keys][requests] + within
        positions = tables.positions[keys][requests]
        if span is None:
            positions = positions + within
        pages = tables.table[keys[requests], indices // size].astype(np.int64)
        lengths = tables.lengths[keys] + counts
        page_counts = -(-lengths // size)
        indptr = np.zeros(batch + 1, dtype=np.int32)
        np.cumsum(page_counts, out=indptr[1:])
        used = np.arange(int(page_counts.max())) < page_counts[:, None]
        if keep:
            tables.advance(keys, counts, span)
        return cls(
            slots=slots,
            positions=positions,
            write_rows=pages * size + indices % size,
            row_slots=slots[requests],
            row_requests=requests,
            row_indices=indices,
            row_indptr=row_indptr,
            kv_lengths=lengths.astype(np.int32),
            indptr=indptr,
            indices=tables.table[keys, : used.shape[1]][used],
            last_page_lengths=((lengths - 1) % size + 1).astype(np.int32),
        )
