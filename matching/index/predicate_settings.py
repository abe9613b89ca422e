"""Topic, scope, window, time and semantics in a table of predicates."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pastforward.columns.vocabulary import Semantics
from pastforward.matching.index import records as r
from pastforward.matching.index.registry import Registry
from pastforward.matching.index.tables import string_column, times
from pastforward.matching.index.topics import first_wrong_topic

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


_SETTINGS: Final = ("topic", "scope", "starts_at", "ends_at", "time", "semantics")


def semantics_of(record_flags: int) -> Semantics:
    return "symmetric" if record_flags & r.SYMMETRIC else "intersect" if record_flags & r.INTERSECT else "classical"


class Settings:
    """Topic, scope, window, time and semantics of each subscription: those of its first row."""

    def __init__(self, table: pa.Table, order: I64, start: I64, first: I64) -> None:
        rows = order[start[first[:-1]]] if table.num_rows else np.zeros(0, np.int64)
        names = [name for name in _SETTINGS if name in table.column_names]
        self._table = table.select(names).take(pa.array(rows)) if names else None
        self._count = len(rows)
        self._texts: tuple[U8, I64, I32] | None = None
        if self._has("topic"):
            heap, offset, length = string_column(self._column("topic"))
            self._texts = (heap, offset, np.maximum(length, 0).astype(np.int32))
            wrong = int(first_wrong_topic(heap, offset, self._texts[2]))
            if wrong >= 0:
                text = heap[offset[wrong] : offset[wrong] + length[wrong]].tobytes().decode()
                raise ValueError(f"the topic {text!r} is no Dewey path; write numbers and dots, like 1.4.2")
        self._flags = np.zeros(self._count, np.uint8)
        for name, known in _FLAGS.items():
            if self._has(name):
                given = self._column(name).combine_chunks().dictionary_encode()
                if isinstance(given, pa.ChunkedArray):
                    given = given.combine_chunks()
                words = given.dictionary.to_pylist()
                for word in words:
                    if word is not None and word not in known:
                        raise ValueError(f"{name} {word!r} is unknown; write one of {', '.join(known)}")
                flags = np.array([*(known.get(word, 0) for word in words), 0], np.uint8)
                self._flags |= flags[given.indices.fill_null(len(words)).to_numpy()]

    @property
    def relaxed(self) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = (self._flags & (r.SYMMETRIC | r.INTERSECT)) != 0
        return found

    def _has(self, name: str) -> bool:
        return self._table is not None and name in self._table.column_names

    def _column(self, name: str) -> pa.ChunkedArray:
        assert self._table is not None
        return self._table.column(name)

    def columns(self, registry: Registry) -> tuple[I32, I64, I64, U8]:
        """Topic nodes, held once each; times; flags of records."""
        flags = self._flags.copy()
        topic = np.zeros(self._count, np.int32)
        window = []
        if self._texts is not None:
            topic = registry.topics.hold(*self._texts)
            flags[topic > 0] |= r.HAS_TOPIC
        for name, flag in (("starts_at", r.HAS_START), ("ends_at", r.HAS_END)):
            bound = np.zeros(self._count, np.int64)
            if self._has(name):
                column = self._column(name)
                given = column.is_valid().to_numpy()
                bound = np.where(given, times(column, 0), 0)
                flags[given] |= flag
            window.append(bound)
        return topic, window[0], window[1], flags

    def hold(self, registry: Registry, topic: I32, disjuncts: I64, ids: I64) -> None:
        """A topic is held once per record: `columns` held it once per subscription."""
        if self._texts is None:
            return
        root = np.flatnonzero(topic == 0)
        if len(root):
            registry.topics.release(topic[root])
        heap, offset, length = self._texts
        again = np.repeat(ids, np.where(topic[ids] > 0, np.maximum(disjuncts - 1, 0), 0))
        if len(again):
            registry.topics.hold(heap, offset[again], length[again])


_FLAGS: Final[dict[str, dict[str, int]]] = {
    "scope": {"overlap": 0, "subtree": r.SUBTREE_SCOPE},
    "time": {"published": 0, "valid": r.VALID_TIME},
    "semantics": {"classical": 0, "symmetric": r.SYMMETRIC, "intersect": r.INTERSECT},
}
