"""A few publications of an Arrow table, in one kernel: columns in, rows and ids out. For small batches, call overhead exceeds matching
time; this path avoids it."""

from __future__ import annotations

import ctypes
import threading
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pastforward.columns.kernel import kernel
from pastforward.columns.scalars import Int
from pastforward.matching.blocks.kernels import find
from pastforward.matching.blocks.references import blocks_at
from pastforward.matching.index.arrow import Layouts, fill_batch, int64_column, string_bytes
from pastforward.matching.index.arrow_rows import columns_at
from pastforward.matching.index.batch import FlatBatch
from pastforward.matching.index.checking import batch_at, checked, known_at
from pastforward.matching.index.registry import Registry

I64 = npt.NDArray[np.int64]

ROWS: Final = 32  # more publications take the ordinary way
_FOUND: Final = 4096  # and so do publications with more matches

# ArrowArray of the C interface: its size, and where the function that releases it is.
_STRUCT: Final = 80
_RELEASE: Final = 64
_RELEASER: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@kernel
def _match_few(addresses: Any, array: Int, columns: Int, attributes: Int, ids: I64, out_rows: I64, out_ids: I64) -> Int:
    """`addresses`: of blocks, what is known of subscriptions, batch.

    Returns how many pairs there are; -1 if they are too many or not sure."""
    blocks_address, known_address, batch_address = addresses
    known = known_at(known_address)
    batch = batch_at(batch_address)
    fill_batch(batch, known.strings, known.axes, array, columns_at(columns))
    rows, slots, n = find(blocks_at(blocks_address), known, batch, False, 1, attributes)
    rows, slots, _, unsure = checked(known, batch, rows[:n], slots[:n], attributes)
    if unsure or len(rows) > len(out_rows):
        return -1
    for i in range(len(rows)):
        out_rows[i] = rows[i]
        out_ids[i] = ids[slots[i]]
    return len(rows)


class Few(threading.local):
    """Memory of each thread, used again and again."""

    def __init__(self) -> None:
        self._shape = (0, 0, 0)
        self._batch = FlatBatch(0, 0, 0)
        self._rows = np.empty(_FOUND, np.int64)
        self._ids = np.empty(_FOUND, np.int64)
        self._struct = (ctypes.c_char * _STRUCT)()
        self._array = ctypes.addressof(self._struct)
        self._release = ctypes.c_void_p.from_buffer(self._struct, _RELEASE)
        self._releaser_at: int | None = None
        self._releaser = _RELEASER()

    def match(self, table: pa.Table, registry: Registry, layouts: Layouts, blocks_at: int) -> pa.Table | None:
        """None if this is not the way for such a table. For ids that are numbers, and subscriptions of one disjunct each."""
        known = layouts.of(table.schema, registry.numbers)
        if not known.plain or known.special or not known.known:
            return None
        batches = table.to_batches()
        if len(batches) != 1:
            return None
        array, columns = self._array, known.columns.address
        batches[0]._export_to_c(array)
        try:
            rows = table.num_rows
            shape = (rows, rows * known.known, int(string_bytes(array, columns, rows)) if known.texts else 0)
            if shape != self._shape:
                self._batch = FlatBatch(*shape)
                self._shape = shape
            n = _match_few(
                (blocks_at, registry.known_at, self._batch.address),
                array,
                columns,
                len(registry.names),
                registry.slots.ids,
                self._rows,
                self._ids,
            )
        finally:
            if self._release.value != self._releaser_at:
                self._releaser_at = self._release.value
                self._releaser = _RELEASER(self._releaser_at or 0)
            self._releaser(array)
        if n < 0:
            return None
        found = [int64_column(self._rows[:n].copy()), int64_column(self._ids[:n].copy())]
        return pa.Table.from_arrays(found, names=["row", "subscription_id"])
