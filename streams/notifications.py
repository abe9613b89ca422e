"""Notifications in columns, as the codec writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from schemas import Notification, NotificationColumns, Texts
from schemas.columns import BACKFILL, BEST, LIVE, PAST, PUBLISHER, SUBSCRIBER

PHASES: Final = {"past": PAST, "live": LIVE, "backfill": BACKFILL, "best": BEST}
ROLES: Final = {"subscriber": SUBSCRIBER, "publisher": PUBLISHER}


def columns_of(notifications: Sequence[Notification]) -> NotificationColumns:
    def texts(name: str) -> Texts:
        return Texts.of([getattr(notification, name).encode() for notification in notifications])

    return NotificationColumns(
        texts("notification_id"),
        texts("subscription_id"),
        texts("subscription_version"),
        texts("publication_id"),
        texts("recipient_id"),
        np.array([ROLES[n.role] for n in notifications], np.uint8),
        texts("topic"),
        np.array([n.published_at for n in notifications], np.int64),
        np.array([n.matched_at for n in notifications], np.int64),
        np.array([PHASES[n.phase] for n in notifications], np.uint8),
        {i: n.earlier_ids for i, n in enumerate(notifications) if n.earlier_ids},
        {i: n.value for i, n in enumerate(notifications) if n.value is not None},
    )
