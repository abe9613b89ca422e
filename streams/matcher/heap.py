"""A text for each handle, one behind the other, so that kernels write them into notifications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.growing import longer
from pastforward.columns.kernel import kernel
from pastforward.columns.texts import Texts
from pastforward.streams.stages.kernels import I32, I64, U8, copy

SPARE: Final = 1 << 16  # bytes of texts that are gone, at least, before the others are moved together


class Heap:
    """What was handed out stays as it is: texts are only added behind it, or moved to a heap of their own."""

    def __init__(self, room: int) -> None:
        self._data: U8 = np.empty(1024, np.uint8)
        self._used = self._gone = 0
        self._at: I64 = np.zeros(room, np.int64)
        self._length: I32 = np.full(room, -1, np.int32)

    def __getitem__(self, handle: int) -> bytes:
        at = int(self._at[handle])
        return self._data[at : at + int(self._length[handle])].tobytes()

    @property
    def nbytes(self) -> int:
        return self._data.nbytes + self._at.nbytes + self._length.nbytes

    def texts(self, handles: npt.NDArray[np.int64]) -> Texts:
        return Texts(self._data, self._at[handles], self._length[handles])

    def room(self, handles: int) -> None:
        more = handles - len(self._at)
        if more > 0:
            self._at = np.append(self._at, np.zeros(more, np.int64))
            self._length = np.append(self._length, np.full(more, -1, np.int32))

    def put(self, handles: npt.NDArray[np.int64], texts: Texts) -> None:
        """For handles that have none."""
        length = np.maximum(texts.length, 0)
        size = int(length.sum())
        if self._used + size > len(self._data):
            self._data = longer(self._data, max(2 * len(self._data), self._used + size))
        self._used = put_texts(*texts.for_kernel(), handles, self._at, self._length, self._data, self._used)

    def drop(self, handles: Sequence[int]) -> None:
        at = np.array(handles, np.int64)
        self._gone += int(np.maximum(self._length[at], 0).sum())
        self._length[at] = -1
        if self._gone > max(SPARE, self._used // 2):
            self.compact()

    def compact(self) -> None:
        data = np.empty(max(1024, self._used - self._gone), np.uint8)
        self._used = move_together(self._data, self._at, self._length, data)
        self._data, self._gone = data, 0


@kernel
def put_texts(heap: U8, at: I64, length: I32, handles: I64, places: I64, lengths: I32, data: U8, used: Any) -> Any:
    for i in range(len(handles)):
        size = max(np.int64(length[i]), np.int64(0))
        places[handles[i]] = used
        lengths[handles[i]] = size
        used = copy(heap, at[i], size, data, used)
    return used


@kernel
def move_together(data: U8, places: I64, lengths: I32, out: U8) -> Any:
    used = np.int64(0)
    for handle in range(len(places)):
        size = np.int64(lengths[handle])
        if size >= 0:
            at = places[handle]
            places[handle] = used
            used = copy(data, at, size, out, used)
    return used
