"""Texts of a chunk as Arrow columns, and back, without a Python object for each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemas import Texts
from streams.kernels import copy_texts, text_ends

U8 = npt.NDArray[np.uint8]
I64 = npt.NDArray[np.int64]


class Packed(NamedTuple):
    """Texts one behind the other: the i-th is `data[at[i]:at[i + 1]]`."""

    data: U8
    at: I64

    @classmethod
    def of(cls, values: Sequence[bytes]) -> Packed:
        at = np.zeros(len(values) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, values), np.int64, len(values)), out=at[1:])
        return cls(np.frombuffer(bytearray().join(values), np.uint8), at)

    @classmethod
    def gather(cls, texts: Texts, rows: I64) -> Packed:
        """Of some rows; none is empty."""
        heap, at, length = texts.for_kernel()
        rows = np.require(rows, np.int64, ("C", "W"))
        ends = np.zeros(len(rows) + 1, np.int64)
        text_ends(length, rows, ends)
        data = np.empty(int(ends[-1]), np.uint8)
        copy_texts(heap, at, length, rows, ends, data)
        return cls(data, ends)

    @classmethod
    def of_arrow(cls, column: Any) -> Packed:
        """Of a binary or string array without nulls, in one piece."""
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if not len(column):
            return cls(np.empty(0, np.uint8), np.zeros(1, np.int64))
        _, offsets, data = column.buffers()
        wide = pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type)
        width = np.int64 if wide else np.int32
        at = np.frombuffer(offsets, width)[column.offset : column.offset + len(column) + 1].astype(np.int64)
        held = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
        return cls(np.require(held, np.uint8, ("C", "W")), at)

    def arrow(self, kind: Any = None) -> Any:
        wide = pa.large_binary() if kind is None else kind
        return pa.Array.from_buffers(wide, len(self.at) - 1, [None, pa.py_buffer(self.at), pa.py_buffer(self.data)])

    def take(self, rows: I64) -> Packed:
        return Packed.gather(Texts(self.data, self.at[:-1], np.diff(self.at).astype(np.int32)), rows)

    def __len__(self) -> int:
        return len(self.at) - 1

    def list(self) -> list[bytes]:
        raw = self.data.tobytes()
        at = self.at.tolist()
        return [raw[low:high] for low, high in pairwise(at)]
