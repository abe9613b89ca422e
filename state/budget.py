"""How much memory the stores of a worker may take, all of them together."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Final, Protocol

from rocksdict import Cache, WriteBufferManager

MEGABYTE: Final = 1 << 20
DEFAULT: Final = 512 * MEGABYTE
LEAST: Final = 4 * MEGABYTE
"""Below that RocksDB flushes after every few rows."""


class _HasSize(Protocol):
    @property
    def size(self) -> int: ...


class Budget:
    """Bytes for memtables, block cache and the indexes in memory. Hand one object to all stores of a process.

    A quarter goes to memtables, an eighth to the block cache, the rest to the indexes. A store whose index does not fit any
    more answers from RocksDB. Each store may be used by a thread of its own.
    """

    def __init__(self, size: int = DEFAULT) -> None:
        if size < LEAST:
            raise ValueError(f"a budget of {size} bytes is too small; give at least {LEAST}")
        self.size = size
        self.memtables = size // 4
        self.cache: Any = Cache(size // 8)
        self.write_buffers: Any = WriteBufferManager(self.memtables, False)
        self.for_indexes = size - self.memtables - size // 8
        self._indexes: weakref.WeakSet[Any] = weakref.WeakSet()
        self._lock = threading.Lock()
        self.stores = 0
        """That are open, and share it."""

    def register(self, index: _HasSize) -> None:
        with self._lock:
            self._indexes.add(index)

    def unregister(self, index: _HasSize) -> None:
        with self._lock:
            self._indexes.discard(index)

    @property
    def used_by_indexes(self) -> int:
        with self._lock:
            return sum(index.size for index in self._indexes)

    @property
    def left(self) -> int:
        """May be negative."""
        return self.for_indexes - self.used_by_indexes
