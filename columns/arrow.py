"""Arrow's columns as kernels read them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from pastforward.columns.texts import Texts


def whole(column: Any) -> Any:
    """One array, decoded if it was a dictionary."""
    if isinstance(column, pa.ChunkedArray):
        chunks = column.chunks or [pa.array([], column.type)]
        column = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def texts_of(column: Any) -> Texts:
    """Where the strings or bytes of a column lie: nothing is copied. Raises `TypeError` if it holds anything else."""
    array = whole(column)
    if pa.types.is_null(array.type):
        array = array.cast(pa.string())
    elif pa.types.is_string_view(array.type) or pa.types.is_binary_view(array.type):
        array = array.cast(pa.large_binary())
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    if not wide and not pa.types.is_string(array.type) and not pa.types.is_binary(array.type):
        raise TypeError(str(array.type))
    _, ends, data = array.buffers()
    width = np.int64 if wide else np.int32
    bounds = np.frombuffer(ends, width)[array.offset : array.offset + len(array) + 1] if ends else np.zeros(1, width)
    # of a slice only what it shows: the text of the whole may be a thousand times as long
    begin, end = int(bounds[0]), int(bounds[-1])
    heap = np.frombuffer(data, np.uint8)[begin:end] if data and end > begin else np.zeros(1, np.uint8)
    length = np.diff(bounds).astype(np.int32)
    if array.null_count:
        length[array.is_null().to_numpy(zero_copy_only=False)] = -1
    return Texts(heap, bounds[:-1].astype(np.int64) - begin, length)
