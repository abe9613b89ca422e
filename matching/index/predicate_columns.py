"""The columns of a table of predicates: values of every type, and what stands in few different words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pastforward.matching.index.predicate_rows import (
    BINARY_VALUE,
    BOOL_VALUE,
    FLOAT_VALUE,
    INT_VALUE,
    NO_VALUE,
    PATH_VALUE,
    TEXT_VALUE,
    TIME_VALUE,
    TWO_VALUES,
)
from pastforward.matching.index.tables import bytes_column, string_column, times

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


VALUE_COLUMNS: Final = {
    "int64": INT_VALUE,
    "float64": FLOAT_VALUE,
    "string": TEXT_VALUE,
    "bool": BOOL_VALUE,
    "timestamp": TIME_VALUE,
    "binary": BINARY_VALUE,
    "path": PATH_VALUE,
}
_NO_BYTES: Final = (np.zeros(1, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int32))


class Values(NamedTuple):
    kind: U8
    bits: I64
    text: tuple[U8, I64, I32] | None
    binary: tuple[U8, I64, I32]


def read_values(table: pa.Table, prefix: str) -> Values:
    rows = table.num_rows
    kind = np.zeros(rows, np.uint8)
    bits: I64 | None = None
    text = None
    binary = _NO_BYTES
    for suffix, code in VALUE_COLUMNS.items():
        name = f"{prefix}_{suffix}"
        if name not in table.column_names:
            continue
        column = table.column(name)
        if column.null_count == rows:
            continue
        given = column.is_valid().to_numpy() if column.null_count else np.True_
        kind = np.where(given, np.where(kind == NO_VALUE, np.uint8(code), np.uint8(TWO_VALUES)), kind)
        if code == TEXT_VALUE:
            text = string_column(column)
        elif code == BINARY_VALUE:
            binary = bytes_column(column)
        elif code != PATH_VALUE:
            raw = raw_bits(column, code)
            bits = raw if bits is None else np.where(given, raw, bits)
    return Values(kind, np.zeros(rows, np.int64) if bits is None else bits, text, binary)


def raw_bits(column: pa.ChunkedArray, code: int) -> I64:
    """64 bits a value; anything for nulls."""
    if code == TIME_VALUE:
        return times(column, 0)
    if code == BOOL_VALUE:
        truth: I64 = column.fill_null(False).to_numpy().astype(np.int64)
        return truth
    whole = one_chunk(column.cast(pa.int64() if code == INT_VALUE else pa.float64()))
    if not len(whole):
        return np.zeros(0, np.int64)
    # Arrow's own memory is not to be written, and to Numba that is another type
    return np.frombuffer(whole.buffers()[1], np.int64, len(whole), whole.offset * 8).copy()


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        return whole.chunk(0) if whole.num_chunks else pa.array([], column.type)
    return whole


def word_codes(column: pa.ChunkedArray, mapping: Mapping[str, int] | None, default: int) -> tuple[I64, list[str]]:
    """Codes of a column of few different strings, and those strings; `mapping` gives other codes."""
    encoded = one_chunk(column)
    if not pa.types.is_dictionary(encoded.type):
        encoded = encoded.dictionary_encode()
    names = [str(name) for name in encoded.dictionary.to_pylist()]
    codes = encoded.indices.to_numpy().astype(np.int64)
    if mapping is not None:
        codes = np.array([mapping.get(name, default) for name in names] or [default], np.int64)[codes]
    return codes, names


def grouped(key: I64, disjunct: I64 | None) -> tuple[I64, I64, I64, I64]:
    """Row numbers such that rows of one subscription, and of one disjunct in it, stand together, otherwise in order; their keys; where
    disjuncts begin, and with which of them subscriptions do."""
    rows = len(key)
    order = np.arange(rows)
    if disjunct is None:
        ids = np.flatnonzero(np.append(rows > 0, key[1:] != key[:-1])[:rows])
        run_keys = key[ids]
        if (run_keys[1:] > run_keys[:-1]).all() or len(np.unique(run_keys)) == len(ids):
            return order, key, np.append(ids, rows), np.arange(len(ids) + 1)
        disjunct = np.zeros(rows, np.int64)
    if not ((key[1:] > key[:-1]) | ((key[1:] == key[:-1]) & (disjunct[1:] >= disjunct[:-1]))).all():
        order = np.lexsort((order, disjunct, key))
        key, disjunct = key[order], disjunct[order]
    new_id = np.append(rows > 0, key[1:] != key[:-1])[:rows]
    new_slot = new_id.copy()
    new_slot[1:] |= disjunct[1:] != disjunct[:-1]
    start = np.append(np.flatnonzero(new_slot), rows)
    return order, key, start, np.append(np.searchsorted(start, np.flatnonzero(new_id)), len(start) - 1)
