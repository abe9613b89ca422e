"""What a store must answer: a list and a loop. Slow, obvious, and independent of the code it judges."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

EVER = 1 << 62


@dataclass
class Item:
    kind: str
    id: Any
    topics: frozenset[tuple[int, ...]]
    time: int  # published_at; arrival of a subscription
    starts_at: int
    ends_at: int
    expires_at: int
    arrived_at: int
    subtree: bool
    valid: bool
    subscriber_id: str | None
    payload: bytes


def path(text: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")) if text else ()


def above(upper: tuple[int, ...], lower: tuple[int, ...]) -> bool:
    """The same, or an ancestor."""
    return lower[: len(upper)] == upper


def some(left: frozenset[tuple[int, ...]], right: frozenset[tuple[int, ...]], test: Any) -> bool:
    return any(test(one, other) for one in left for other in right)


def overlap(left: tuple[int, ...], right: tuple[int, ...]) -> bool:
    return above(left, right) or above(right, left)


@dataclass
class Oracle:
    """Applies one operation after the other. `commit` and `rollback` by copying."""

    hot_window: int | None = None
    lateness: int = 0
    earlier_limit: int | None = None
    items: list[Item] = field(default_factory=list)
    log_time: int = -EVER
    committed: tuple[list[Item], int] = field(default_factory=lambda: ([], -EVER))
    complete_from: int = -EVER  # what shorter windows have given up does not come back
    ended_before: int = -EVER

    def change_windows(self, hot_window: int | None, lateness: int) -> None:
        self.complete_from = self.horizon()
        self.ended_before = max(self.ended_before, self.log_time - self.lateness)
        self.hot_window, self.lateness = hot_window, lateness

    def commit(self) -> None:
        self.committed = self.savepoint()

    def rollback(self) -> None:
        self.rollback_to(self.committed)

    def savepoint(self) -> tuple[list[Item], int]:
        return list(self.items), self.log_time

    def rollback_to(self, point: tuple[list[Item], int]) -> None:
        self.items, self.log_time = list(point[0]), point[1]

    def horizon(self) -> int:
        return (
            self.complete_from if self.hot_window is None else max(self.complete_from, self.log_time - self.hot_window)
        )

    def alive(self, item: Item) -> bool:
        if item.kind == "subscription":
            return item.ends_at >= max(self.ended_before, self.log_time - self.lateness)
        if self.hot_window is None and item.expires_at <= self.log_time:
            return False
        return item.arrived_at >= self.horizon()

    def there(self, kind: str) -> dict[Any, Item]:
        return {item.id: item for item in self.items if item.kind == kind and self.alive(item)}

    def in_time(self, subscription: Item, publication: Item) -> bool:
        if subscription.valid:
            begin = max(subscription.starts_at, publication.time)
            return begin < min(subscription.ends_at, publication.expires_at)
        return subscription.starts_at <= publication.time < subscription.ends_at

    def reaches(self, subscription: Item, publication: Item) -> bool:
        test = above if subscription.subtree else overlap
        return some(subscription.topics, publication.topics, test)

    def past(self, subscription: Item, horizon: int) -> list[Item]:
        return [
            item
            for item in self.items
            if item.kind == "publication"
            and self.alive(item)
            and item.expires_at > self.log_time
            and min(item.time, item.arrived_at) >= max(horizon, self.horizon())
            and self.in_time(subscription, item)
            and self.reaches(subscription, item)
        ]

    def apply(self, row: dict[str, Any], find: str = "both") -> tuple[set[tuple[str, Any]], bool]:
        """What the operation finds, and whether it was a repeat."""
        topics = row.get("topic") or ""
        item = Item(
            kind=row["kind"],
            id=row["id"],
            topics=frozenset(map(path, topics if isinstance(topics, list) else [topics])),
            time=row.get("time", 0),
            starts_at=_or(row.get("starts_at"), -EVER),
            ends_at=_or(row.get("ends_at"), EVER),
            expires_at=_or(row.get("expires_at"), EVER),
            arrived_at=_or(row.get("arrived_at"), row.get("time")),
            subtree=row.get("scope") == "subtree",
            valid=bool(row.get("valid")),
            subscriber_id=row.get("subscriber_id") or None,
            payload=row.get("payload") or b"",
        )
        if item.arrived_at is not None:
            self.log_time = max(self.log_time, item.arrived_at)
        if item.kind == "withdrawal":
            self.items = [old for old in self.items if old.kind != "subscription" or old.id != item.id]
            return set(), False
        if item.kind == "publication":
            if item.id in self.there("publication"):
                return set(), True
            found = self._publish(item, row, find)
            stale = self.horizon() > item.time
            self.items.append(replace(item, payload=b"") if stale else item)
            return found, False
        found = self._subscribe(item, row, find)
        self.items = [old for old in self.items if old.kind != "subscription" or old.id != item.id]
        self.items.append(item)
        return found, False

    def _subscribe(self, item: Item, row: dict[str, Any], find: str) -> set[tuple[str, Any]]:
        found: set[tuple[str, Any]] = set()
        if find != "none":
            found |= {("publication", old.id) for old in self.past(item, _or(row.get("horizon"), -EVER))}
        if row.get("self_join"):
            for old in self.there("subscription").values():
                same = item.subscriber_id is None or item.subscriber_id == old.subscriber_id
                together = max(item.starts_at, old.starts_at) < min(item.ends_at, old.ends_at)
                if old.id != item.id and same and together and some(item.topics, old.topics, overlap):
                    found.add(("subscription", old.id))
        return found

    def _publish(self, item: Item, row: dict[str, Any], find: str) -> set[tuple[str, Any]]:
        found: set[tuple[str, Any]] = set()
        if find == "both" and item.expires_at > item.arrived_at:
            found |= {
                ("subscription", old.id)
                for old in self.there("subscription").values()
                if self.in_time(old, item) and self.reaches(old, item)
            }
        if row.get("self_join"):
            earlier = [
                old
                for old in self.there("publication").values()
                if old.expires_at > self.log_time
                and min(old.time, old.arrived_at) >= self.horizon()
                and old.topics & item.topics
            ]
            earlier.sort(key=lambda old: (old.time, self.items.index(old)), reverse=True)
            for topic in item.topics:
                there = [old for old in earlier if topic in old.topics]
                found |= {("publication", old.id) for old in there[: self.earlier_limit]}
        return found


def _or(value: int | None, default: Any) -> Any:
    return default if value is None else value
