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
