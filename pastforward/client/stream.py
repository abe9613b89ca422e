"""Iterators over records of a topic, each with its position."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Generic, TypeVar

from confluent_kafka import Message

from pastforward.client.moments import seconds_of
from pastforward.client.reader import Reader
from pastforward.client.tokens import write_token

T = TypeVar("T")


class Stream(Generic[T]):
    """Records of one key, or of all.

    Ends after `timeout` seconds without one; never, if that is None. Closing it or its client ends it as well, and `with` closes it.
    It belongs to the thread that iterates; `close` may be called from any.
    """

    def __init__(
        self,
        reader: Reader,
        positions: Mapping[int, int],
        read: Callable[[Message], T],
        *,
        key: str | None = None,
        accept: Callable[[T], bool] | None = None,
        timeout: float | None = None,
        closed: threading.Event,
    ) -> None:
        self._reader = reader
        self._read, self._accept = read, accept
        self._key = None if key is None else key.encode()
        self._timeout = seconds_of(timeout)
        self._client_closed, self._closed = closed, threading.Event()
        self._positions = dict(positions)
        self._fetched: deque[Message] = deque()
        self._reading = threading.Lock()

    @property
    def token(self) -> str:
        """The place behind what was read last, for `after=`; also what was passed over counts as read."""
        return write_token(self._positions)

    @property
    def positions(self) -> dict[int, int]:
        """By partition, the offset of the next record."""
        return dict(self._positions)

    def __iter__(self) -> Stream[T]:
        return self

    def __next__(self) -> T:
        with self._reading:
            found = self._take(self._timeout)
        if found is None:
            self.close()
            raise StopIteration
        return found

    def next(self, timeout: float | None = 0.0) -> T | None:
        """The next one, if it comes within `timeout` seconds; None: none has, and the stream goes on."""
        with self._reading:
            found = self._take(seconds_of(timeout))
        if self._closed.is_set():
            self.close()
        return found

    def take(self, most: int, timeout: float) -> list[T]:
        """All that is there, up to so many; the first is waited for."""
        found = self.next(timeout)
        taken = [] if found is None else [found]
        while taken and len(taken) < most and self._fetched:
            found = self.next(0.0)
            if found is None:
                break
            taken.append(found)
        return taken

    def _take(self, timeout: float | None) -> T | None:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            while self._fetched and not self.ended:
                message = self._fetched.popleft()
                self._positions[message.partition()] = message.offset() + 1
                if self._key is None or message.key() == self._key:
                    found = self._read(message)
                    if self._accept is None or self._accept(found):
                        return found
            if self.ended:
                return None
            left = None if deadline is None else deadline - time.monotonic()
            self._fetched.extend(self._reader.arrived(left))
            if not self._fetched:
                self._positions.update(self._reader.ends)
                if deadline is not None and time.monotonic() >= deadline:
                    return None

    @property
    def ended(self) -> bool:
        """Whether it or its client was closed."""
        return self._closed.is_set() or self._client_closed.is_set()

    def close(self) -> None:
        """Who is in the middle of `next` in another thread comes to an end within a moment, and closes it there."""
        self._closed.set()
        if self._reading.acquire(blocking=False):
            try:
                self._fetched.clear()
                self._reader.close()
            finally:
                self._reading.release()

    def __enter__(self) -> Stream[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        reader: Any = getattr(self, "_reader", None)
        if reader is not None:
            reader.close()
