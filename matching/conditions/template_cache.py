"""What was read or compiled and is remembered: bounded in number and in size, the oldest going first."""

from __future__ import annotations

from threading import Lock
from typing import Generic, Protocol, TypeVar


class Weighed(Protocol):
    @property
    def weight(self) -> int: ...


Item = TypeVar("Item", bound=Weighed)


class ShapeCache(Generic[Item]):
    """`get` may be called from any thread without a lock; `put` takes one. What is heavier than all room is not kept."""

    def __init__(self, max_count: int, max_weight: int) -> None:
        self._max_count = max_count
        self._max_weight = max_weight
        self._items: dict[tuple[str, ...], Item] = {}
        self._weight = 0
        self._lock = Lock()
        self.get = self._items.get

    def put(self, key: tuple[str, ...], item: Item) -> None:
        if item.weight > self._max_weight:
            return
        with self._lock:
            if key in self._items:
                return
            self._items[key] = item
            self._weight += item.weight
            while len(self._items) > self._max_count or self._weight > self._max_weight:
                oldest = next(iter(self._items))
                self._weight -= self._items.pop(oldest).weight

    def clear(self) -> None:
        with self._lock:
            self._items.clear()
            self._weight = 0

    @property
    def weight(self) -> int:
        return self._weight

    def __len__(self) -> int:
        return len(self._items)


class Seen:
    """Whether a key came before, lately: of as many as there is room for, and twice as many at most. Hashes alone are kept, so now and then
    the answer is yes for what is new. Threads may lose a key."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._new: set[int] = set()
        self._old: set[int] = set()

    def add(self, key: tuple[str, ...]) -> bool:
        """Whether it was there."""
        known = hash(key)
        if known in self._new or known in self._old:
            return True
        if len(self._new) >= self._count:
            self._old, self._new = self._new, set()
        self._new.add(known)
        return False

    def clear(self) -> None:
        self._new, self._old = set(), set()
