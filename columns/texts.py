"""Columns of texts: places in a heap of bytes, most of them where they stood in the records' own bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


def as_kernel(array: npt.ArrayLike, dtype: type[np.generic]) -> npt.NDArray[Any]:
    """As kernels are compiled for: of that type, contiguous, writable. Anything else would cost a compilation; here, at most a copy."""
    if isinstance(array, np.ndarray) and array.dtype == dtype and array.flags.carray:
        return array
    return np.require(array, dtype, ("C", "W"))


# What kernels take of a column: heap, at, length. Numba takes a plain tuple three times as fast as a named one.
TextArrays: TypeAlias = tuple[U8, I64, I32]


@dataclass(slots=True)
class Texts:
    """A column of strings or bytes: places in a heap. A length of -1 is none."""

    heap: U8
    at: I64
    length: I32

    @classmethod
    def of(cls, values: Sequence[bytes | None]) -> Texts:
        sizes = [-1 if value is None else len(value) for value in values]
        length = np.array(sizes, dtype=np.int32)
        at = np.zeros(len(sizes), dtype=np.int64)
        if len(sizes) > 1:
            np.add.accumulate(np.maximum(length[:-1], 0), out=at[1:])
        heap = np.frombuffer(bytearray().join([value for value in values if value]), dtype=np.uint8)
        return cls(heap, at, length)

    @classmethod
    def alike(cls, text: U8, rows: int) -> Texts:
        """All rows have the same."""
        length = np.empty(rows, dtype=np.int32)
        length.fill(len(text))
        return cls(text, np.zeros(rows, dtype=np.int64), length)

    def for_kernel(self) -> TextArrays:
        return as_kernel(self.heap, np.uint8), as_kernel(self.at, np.int64), as_kernel(self.length, np.int32)

    def __len__(self) -> int:
        return len(self.at)

    def __getitem__(self, row: int) -> bytes | None:
        if self.length[row] < 0:
            return None
        return self.heap[self.at[row] : self.at[row] + self.length[row]].tobytes()

    def __iter__(self) -> Iterator[bytes | None]:
        heap = self.heap.tobytes()
        places = zip(self.at.tolist(), self.length.tolist(), strict=True)
        return iter([None if length < 0 else heap[at : at + length] for at, length in places])

    def strings(self) -> list[str | None]:
        return [None if value is None else value.decode() for value in self]

    def having(self, byte: int) -> npt.NDArray[np.bool_]:
        """Which rows have it. It reads the heap once, with what lies between the texts."""
        places = np.flatnonzero(self.heap == byte)
        first, behind = np.searchsorted(places, self.at), np.searchsorted(places, self.at + np.maximum(self.length, 0))
        return first < behind

    def take(self, rows: I64) -> Texts:
        return Texts(self.heap, self.at[rows], self.length[rows])
