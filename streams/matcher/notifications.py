"""Notifications in columns, as the codec writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.texts import Texts, as_kernel
from pastforward.columns.vocabulary import TRANSITIONS, Transition
from pastforward.schemas import Content, Contents, Notification, NotificationColumns, RendezvousColumns
from pastforward.schemas.columns import PUBLISHER, SUBSCRIBER, AboutEntities
from pastforward.schemas.contents import condition_texts, content_at, contents_of
from pastforward.streams.matcher.subscribers import IDS_ALONE, Subscribers
from pastforward.streams.stages import kernels, sha256

Rows = npt.NDArray[np.int64]

PHASES: Final = ("past", "live", "backfill", "best")  # by their numbers in the columns
ROLES: Final = ("subscriber", "publisher")


@dataclass(slots=True)
class Notified:
    """Notifications of one role. `pairs`: the pair that each stands for, ascending."""

    columns: NotificationColumns
    pairs: Rows

    def places(self, pair: int) -> list[int]:
        """Where a pair stands in the columns, if it does."""
        at = int(np.searchsorted(self.pairs, pair))
        return [at] if at < len(self.pairs) and self.pairs[at] == pair else []


def notifications_of_pairs(
    subscribers: Subscribers, handles: Rows, columns: RendezvousColumns, rows: Rows, matched_at: Rows, phase: int
) -> list[Notified]:
    """Notifications of pairs: of a subscription, by handle, and a publication, by its row. The subscriber is told, and the publisher who
    asked for it."""
    contents, carries = _contents(subscribers, handles, columns, rows)
    names = subscribers.names_heap.texts(handles)
    versions = _versions(subscribers.partition[handles], subscribers.offset[handles])

    def made(role: int, pairs: Rows, recipients: Texts) -> Notified:
        at = rows[pairs]
        return Notified(
            NotificationColumns(
                _ids(pairs, b"\0publisher" if role == PUBLISHER else b"", names, versions, columns, rows),
                names.take(pairs),
                versions.take(pairs),
                columns.id.take(at),
                recipients,
                np.full(len(pairs), role, np.uint8),
                columns.topic.take(at),
                columns.begins_at[at],
                matched_at[pairs],
                np.full(len(pairs), phase, np.uint8),
                {},
                {},
                contents,
                carries[pairs],
            ),
            pairs,
        )

    notified = [made(SUBSCRIBER, np.arange(len(rows)), subscribers.recipient.texts(handles))]
    asked = np.flatnonzero(columns.party_id.length[rows] >= 0)
    if len(asked):
        notified.append(made(PUBLISHER, asked, columns.party_id.take(rows[asked])))
    return notified


def _versions(partition: npt.NDArray[np.int32], offset: Rows) -> Texts:
    heap = np.empty(kernels.VERSION * len(offset), np.uint8)
    at, length = np.empty(len(offset), np.int64), np.empty(len(offset), np.int32)
    kernels.version_texts(partition, offset, heap, at, length)
    return Texts(heap, at, length)


def _ids(pairs: Rows, suffix: bytes, names: Texts, versions: Texts, columns: RendezvousColumns, rows: Rows) -> Texts:
    """See `streams.matcher.notification_id`."""
    parts = (names, versions, columns.id, columns.topic)
    longest = sum(int(part.length.max(initial=0)) for part in parts) + len(suffix)
    heap, scratch = np.empty(sha256.ID * len(pairs), np.uint8), np.empty(longest + 3 * sha256.BLOCK, np.uint8)
    sha256.notification_ids(
        scratch,
        heap,
        pairs,
        as_kernel(rows, np.int64),
        (names.for_kernel(), versions.for_kernel()),
        (columns.id.for_kernel(), columns.topic.for_kernel()),
        np.frombuffer(bytearray(suffix), np.uint8),
    )
    return Texts(heap, np.arange(0, len(heap), sha256.ID), np.full(len(pairs), sha256.ID, np.int32))


def _contents(
    subscribers: Subscribers, handles: Rows, columns: RendezvousColumns, rows: Rows
) -> tuple[Contents | None, Rows]:
    """What the publications carry, and for each pair which of them."""
    carries = np.where(subscribers.flags[handles] & IDS_ALONE, -1, rows)
    if not (carries >= 0).any():
        return None, carries
    where = condition_texts(columns.where, carries[carries >= 0])
    return Contents(columns.attributes, where, columns.body, columns.party_id, columns.ends_at), carries


def as_columns(notifications: Sequence[Notification]) -> NotificationColumns:
    """Of single ones: best offers."""

    def texts(name: str) -> Texts:
        return Texts.of([getattr(notification, name).encode() for notification in notifications])

    carried = [n.content for n in notifications if n.content is not None]
    places = accumulate((n.content is not None for n in notifications[:-1]), initial=0)
    return NotificationColumns(
        texts("notification_id"),
        texts("subscription_id"),
        texts("subscription_version"),
        texts("publication_id"),
        texts("recipient_id"),
        np.array([ROLES.index(n.role) for n in notifications], np.uint8),
        texts("topic"),
        np.array([n.published_at for n in notifications], np.int64),
        np.array([n.matched_at for n in notifications], np.int64),
        np.array([PHASES.index(n.phase) for n in notifications], np.uint8),
        {i: n.earlier_ids for i, n in enumerate(notifications) if n.earlier_ids},
        {i: n.value for i, n in enumerate(notifications) if n.value is not None},
        contents_of(carried),
        np.array([-1 if n.content is None else at for n, at in zip(notifications, places, strict=True)], np.int64),
        _about_entities(notifications),
    )


def _about_entities(notifications: Sequence[Notification]) -> AboutEntities | None:
    if not any(notification.publication_version for notification in notifications):
        return None

    def texts(name: str) -> Texts:
        found = (getattr(notification, name) for notification in notifications)
        return Texts.of([None if text is None else text.encode() for text in found])

    numbers = [0 if n.transition is None else 1 + TRANSITIONS.index(n.transition) for n in notifications]
    return AboutEntities(np.array(numbers, np.uint8), texts("set_version"), texts("publication_version"))


def notifications_of(columns: NotificationColumns) -> list[Notification]:
    """One by one."""
    texts = (
        columns.notification_id,
        columns.subscription_id,
        columns.subscription_version,
        columns.publication_id,
        columns.recipient_id,
        columns.topic,
    )
    ids, subscriptions, versions, publications, recipients, topics = (
        [(t or b"").decode() for t in text] for text in texts
    )
    roles, phases = columns.role.tolist(), columns.phase.tolist()
    published, matched = columns.published_at.tolist(), columns.matched_at.tolist()
    found: list[Any] = [
        Notification(
            ids[i],
            subscriptions[i],
            versions[i],
            publications[i],
            recipients[i],
            ROLES[roles[i]],
            topics[i],
            published[i],
            matched[i],
            PHASES[phases[i]],
            columns.earlier_ids.get(i, ()),
            columns.value.get(i),
            _content(columns, i),
            *_said_of_entity(columns.about_entities, i),
        )
        for i in range(len(columns))
    ]
    return found


def _said_of_entity(about: AboutEntities | None, row: int) -> tuple[Transition | None, str | None, str | None]:
    if about is None:
        return None, None, None
    number, texts = int(about.transition[row]), (about.set_version[row], about.publication_version[row])
    began, version = (None if text is None else text.decode() for text in texts)
    return TRANSITIONS[number - 1] if number else None, began, version


def _content(columns: NotificationColumns, row: int) -> Content | None:
    if columns.contents is None or columns.carries is None or columns.carries[row] < 0:
        return None
    return content_at(columns.contents, int(columns.carries[row]))
