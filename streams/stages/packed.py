"""Texts of a chunk one behind the other, without a Python object for each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pastforward.columns.texts import Texts
from pastforward.streams.stages.kernels import copy_texts, text_ends

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

    def take(self, rows: I64) -> Packed:
        return Packed.gather(self.texts(), rows)

    def texts(self) -> Texts:
        return Texts(self.data, self.at[:-1], np.diff(self.at).astype(np.int32))

    def __len__(self) -> int:
        return len(self.at) - 1

    def text(self, i: int) -> bytes:
        return self.data[self.at[i] : self.at[i + 1]].tobytes()

    def list(self) -> list[bytes]:
        raw = self.data.tobytes()
        at = self.at.tolist()
        return [raw[low:high] for low, high in pairwise(at)]
