"""The subscriptions of a partition in the matching index, by handle."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pastforward.matching import Index
from pastforward.schemas import RendezvousColumns, decode_rendezvous_chunk
from pastforward.state import Store
from pastforward.streams.matcher.records import add_to
from pastforward.streams.matcher.subscribers import Subscribers
from pastforward.streams.stages.guard import in_halves

log = logging.getLogger("pastforward.matcher")

Rows = npt.NDArray[np.int64]


class MemoryIndex:
    """`index` itself, and what it could not be rid of. `stuck`: handles that it has failed to remove; they match nothing any more."""

    def __init__(self, number: int, algorithm: str) -> None:
        self._number, self._algorithm = number, algorithm
        self.index = Index(algorithm)
        self.stuck: set[int] = set()

    def add(self, columns: RendezvousColumns, rows: Rows, handles: Rows) -> None:
        add_to(self.index, columns, rows, handles)

    def remove(self, handles: Sequence[int]) -> None:
        """It does not raise: what has happened cannot be undone any more."""
        index = self.index

        def stuck(handle: int, error: Exception) -> None:
            log.warning("partition %d: the index keeps a subscription that is over", self._number, exc_info=error)
            self.stuck.add(handle)

        in_halves(lambda some: index.remove_many(np.array(some, np.int64)), stuck, handles)

    def undo(self, taken: Sequence[int], subscribers: Subscribers, store: Store) -> None:
        """As it was before a chunk that had taken these handles. If it cannot be brought there, it is made anew from the store."""
        if not taken:
            return
        self.remove(taken)
        if len(self.index) == len(subscribers) + len(self.stuck):
            return
        log.warning("partition %d: the index is made anew", self._number)
        self.index, self.stuck = Index(self._algorithm), set()
        for batch in store.scan("subscription", ("payload",)):
            columns = decode_rendezvous_chunk(batch["payload"].to_pylist())
            handles = [subscribers.find(name or b"") for name in columns.id]
            rows = [row for row, handle in enumerate(handles) if handle is not None]
            self.add(columns, np.array(rows, np.int64), np.array([handles[row] for row in rows], np.int64))
