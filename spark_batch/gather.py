"""Texts that lie about in a heap, laid out one after the other as Arrow has them. The other way round: `columns.arrow`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pastforward.columns.kernel import kernel
from pastforward.columns.texts import Texts


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


@kernel
def copy_texts(heap: Any, at: Any, length: Any, data: npt.NDArray[np.uint8], ends: npt.NDArray[np.int32]) -> None:
    for row in range(len(at)):
        to = ends[row]
        source = at[row]
        for k in range(length[row]):
            data[to + k] = heap[source + k]
