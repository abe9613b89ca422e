"""Texts that lie about in a heap, laid out one after the other as Arrow has them; and the other way round."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pastforward.columns.kernel import kernel
from pastforward.schemas.columns import Texts


def arrow_texts(texts: Texts, kind: pa.DataType) -> pa.Array:
    """A column of strings or binaries; a length of -1 is null. Below 2 GiB, as every batch is."""
    length = np.maximum(texts.length, 0)
    ends = np.zeros(len(length) + 1, np.int32)
    np.cumsum(length, out=ends[1:])
    data = np.empty(int(ends[-1]), np.uint8)
    copy_texts(texts.heap, texts.at, length, data, ends)
    missing = texts.length < 0
    validity = pa.array(~missing).buffers()[1] if missing.any() else None
    buffers = [validity, pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(length), buffers, null_count=int(missing.sum()))


def texts_of(column: pa.Array) -> Texts:
    """Where a column's texts lie: nothing is copied. None of them may be null."""
    _, ends, data = column.buffers()
    bounds = np.frombuffer(ends, np.int32)[column.offset : column.offset + len(column) + 1]
    heap = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return Texts(heap, bounds[:-1].astype(np.int64), np.diff(bounds).astype(np.int32))


def nullable_texts(column: pa.Array) -> Texts:
    found = texts_of(column.fill_null("" if pa.types.is_string(column.type) else b""))
    found.length[column.is_null().to_numpy(zero_copy_only=False)] = -1
    return found


@kernel
def copy_texts(heap: Any, at: Any, length: Any, data: npt.NDArray[np.uint8], ends: npt.NDArray[np.int32]) -> None:
    for row in range(len(at)):
        to = ends[row]
        source = at[row]
        for k in range(length[row]):
            data[to + k] = heap[source + k]
