"""What a chunk has led to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pastforward.schemas import (
    BackfillRequest,
    BestOffer,
    Notification,
    NotificationColumns,
)
from pastforward.streams.matcher.notifications import as_columns, notifications_of


@dataclass(slots=True)
class Effects:
    """What a chunk has led to. `live`: the raw rendezvous record of a subscription that is held, or None for one that is not; auctions
    and duplicates in the same way, under their keys."""

    pairs: list[NotificationColumns] = field(default_factory=list)
    best: list[Notification] = field(default_factory=list)
    offers: list[BestOffer] = field(default_factory=list)
    requests: list[BackfillRequest] = field(default_factory=list)
    live: dict[bytes, bytes | None] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    moved: list[bytes] = field(default_factory=list)  # subscriptions that came through two partitions of the input

    @property
    def notifications(self) -> list[Notification]:
        """One by one, for who wants to look at them."""
        return [notification for columns in self.pairs for notification in notifications_of(columns)] + self.best

    def columns(self) -> list[NotificationColumns]:
        """All of them."""
        return [*self.pairs, as_columns(self.best)] if self.best else self.pairs
