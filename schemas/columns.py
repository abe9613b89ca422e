"""Chunks of records in columns. All texts of a chunk lie in one heap, most of them where they stood in the records' own bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pastforward.columns.attributes import Attributes
from pastforward.columns.texts import Texts
from pastforward.matching.conditions.values import Value
from pastforward.schemas.errors import SchemaError
from pastforward.schemas.records import Where

if TYPE_CHECKING:
    from pastforward.schemas.forms import Forms

Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]
Smalls = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]

# Numbers in the columns of enums, as in the schemas; those of scopes, time bases and semantics are in `columns.vocabulary`.
NO_BEST, HIGHEST, LOWEST = 0, 1, 2
SUBSCRIBER, PUBLISHER = 0, 1
PAST, LIVE, BACKFILL, BEST = 0, 1, 2, 3
NO_TRANSITION, ENTERED, UPDATED, LEFT = 0, 1, 2, 3
FROM_SUBSCRIPTIONS, FROM_PUBLICATIONS, FROM_NONE = 0, 1, 2
TICK, SUBSCRIPTION, WITHDRAWAL, PUBLICATION = 0, 1, 2, 3


@dataclass(slots=True)
class PublicationColumns:
    """Publications of one poll of one partition, defaults filled in. Rows in `errors` are not `ok` and hold nothing.

    `where` has the conditions as they came; None: no condition. `expires_at` NEVER: none. `best`: NO_BEST, HIGHEST, LOWEST. One that is
    `withdrawn` is a null value: it withdraws the entity of its id, and holds nothing else.
    """

    partition: int
    offset: Longs
    arrived_at: Longs
    ok: Flags
    publication_id: Texts
    publisher_id: Texts
    topic: Texts
    published_at: Longs
    expires_at: Longs
    attributes: Attributes
    where: list[Where]
    best: Smalls
    best_attribute: Texts
    self_join: Flags
    body: Texts
    entity: Flags
    withdrawn: Flags
    errors: list[tuple[int, SchemaError]]

    def __len__(self) -> int:
        return len(self.ok)


@dataclass(slots=True)
class SubscriptionColumns:
    """Subscriptions of one poll of one partition, defaults filled in. Rows in `errors` are not `ok` and hold nothing.

    A withdrawal has its id alone. `ends_at` NEVER: none. One without a beginning may have ended before it arrived: it is refused by whoever
    knows that it is new, for the same again changes nothing.
    """

    partition: int
    offset: Longs
    arrived_at: Longs
    ok: Flags
    withdrawn: Flags
    subscription_id: Texts
    subscriber_id: Texts
    topic: Texts
    scope: Smalls
    starts_at: Longs
    ends_at: Longs
    time: Smalls
    where: list[Where]
    semantics: Smalls
    self_join: Flags
    deliver: Smalls
    transitions: Flags
    paused: Flags
    errors: list[tuple[int, SchemaError]]

    def __len__(self) -> int:
        return len(self.ok)


@dataclass(slots=True)
class RendezvousColumns:
    """Rendezvous records of one poll of one partition. Rows in `errors` are not `ok` and hold nothing.

    `kind`: TICK, SUBSCRIPTION, WITHDRAWAL, PUBLICATION. The columns up to `partitions` hold for every kind, the others for those
    that have the field: `id` and `party_id` are the subscription's and subscriber's, or the publication's and publisher's;
    `begins_at` is `starts_at` or `published_at`, `ends_at` is `ends_at` or `expires_at`. Row i went to the rendezvous partitions
    `partitions[partitions_start[i]:partitions_start[i + 1]]`. A publication without a condition has None in `where`. `set_version` and
    `entity` say by a length other than -1 that the record has one: `decode_rendezvous` reads it.
    """

    ok: Flags
    kind: Smalls
    origin: Smalls
    partition: Ints
    offset: Longs
    arrived_at: Longs
    routing_version: Ints
    partitions_start: Longs
    partitions: Ints
    id: Texts
    party_id: Texts
    topic: Texts
    begins_at: Longs
    ends_at: Longs
    self_join: Flags
    where: Forms
    version_partition: Ints
    version_offset: Longs
    version_arrived_at: Longs
    scope: Smalls
    time: Smalls
    semantics: Smalls
    deliver: Smalls
    best: Smalls
    best_attribute: Texts
    attributes: Attributes
    body: Texts
    transitions: Flags
    paused: Flags
    replaced: Flags
    set_version: Texts
    entity: Texts
    errors: list[tuple[int, SchemaError]]

    def __len__(self) -> int:
        return len(self.ok)


@dataclass(slots=True)
class Contents:
    """What publications carry. `where`: published conditions as SQL text. `expires_at` NEVER: none."""

    attributes: Attributes
    where: Texts
    body: Texts
    publisher_id: Texts
    expires_at: Longs

    def __len__(self) -> int:
        return len(self.expires_at)


@dataclass(slots=True)
class AboutEntities:
    """Of notifications, what those of entities say beside the others. A text of length -1: none."""

    transition: Smalls
    set_version: Texts
    publication_version: Texts


@dataclass(slots=True)
class NotificationColumns:
    """Notifications to write, or as read. `earlier_ids` and `value` hold the rows that have any. Row i carries the content
    `carries[i]` of `contents`; -1: none. Many may carry the same. `about_entities` None: none of them is of an entity."""

    notification_id: Texts
    subscription_id: Texts
    subscription_version: Texts
    publication_id: Texts
    recipient_id: Texts
    role: Smalls
    topic: Texts
    published_at: Longs
    matched_at: Longs
    phase: Smalls
    earlier_ids: dict[int, tuple[str, ...]]
    value: dict[int, Value]
    contents: Contents | None = None
    carries: Longs | None = None
    about_entities: AboutEntities | None = None

    def __len__(self) -> int:
        return len(self.role)
