"""Many readers or one writer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ReadWriteLock:
    """A writer waits for the readers inside and keeps new ones out, so it is not starved. Not re-entrant."""

    def __init__(self) -> None:
        # readers take the lock itself, which is several times quicker than through the condition
        self._mutex = threading.Lock()
        self._condition = threading.Condition(self._mutex)
        self._readers = 0
        self._writing = False
        self._waiting = 0

    def acquire_read(self) -> None:
        with self._mutex:
            while self._writing or self._waiting:
                self._condition.wait()
            self._readers += 1

    def release_read(self) -> None:
        with self._mutex:
            self._readers -= 1
            if not self._readers and self._waiting:
                self._condition.notify_all()

    @contextmanager
    def write(self) -> Iterator[None]:
        with self._condition:
            self._waiting += 1
            try:
                while self._writing or self._readers:
                    self._condition.wait()
                self._writing = True
            finally:
                self._waiting -= 1
        try:
            yield
        finally:
            with self._condition:
                self._writing = False
                self._condition.notify_all()
