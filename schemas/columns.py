"""Chunks of records in columns. All texts of a chunk lie in one heap, most of them where they stood in the records' own bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.attributes import Attributes
from pastforward.matching.conditions.values import Value
from pastforward.schemas.errors import SchemaError
from pastforward.schemas.records import Where

if TYPE_CHECKING:
    from pastforward.schemas.forms import Forms

Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]
Smalls = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]

# An end that never comes: later than every time, so that comparisons need no case of their own.
NEVER: Final = 2**63 - 1

# Numbers in the columns of enums, as in the schemas.
OVERLAP, SUBTREE = 0, 1
PUBLISHED, VALID = 0, 1
CLASSICAL, SYMMETRIC, INTERSECT = 0, 1, 2
CONTENT, IDS = 0, 1
NO_BEST, HIGHEST, LOWEST = 0, 1, 2
SUBSCRIBER, PUBLISHER = 0, 1
PAST, LIVE, BACKFILL, BEST = 0, 1, 2, 3
FROM_SUBSCRIPTIONS, FROM_PUBLICATIONS, FROM_NONE = 0, 1, 2
TICK, SUBSCRIPTION, WITHDRAWAL, PUBLICATION = 0, 1, 2, 3


def as_kernel(array: npt.ArrayLike, dtype: type[np.generic]) -> npt.NDArray[Any]:
    """As kernels are compiled for: of that type, contiguous, writable. Anything else would cost a compilation; here, at most a copy."""
    if isinstance(array, np.ndarray) and array.dtype == dtype and array.flags.carray:
        return array
    return np.require(array, dtype, ("C", "W"))


@dataclass(slots=True)
class Texts:
    """A column of strings or bytes: places in a heap. A length of -1 is none."""

    heap: npt.NDArray[np.uint8]
    at: Longs
    length: Ints

    @classmethod
    def of(cls, values: Sequence[bytes | None]) -> Texts:
        sizes = [-1 if value is None else len(value) for value in values]
        length = np.array(sizes, dtype=np.int32)
        at = np.zeros(len(sizes), dtype=np.int64)
        if len(sizes) > 1:
            np.add.accumulate(np.maximum(length[:-1], 0), out=at[1:])
        heap = np.frombuffer(bytearray().join([value for value in values if value]), dtype=np.uint8)
        return cls(heap, at, length)

    @classmethod
    def alike(cls, text: npt.NDArray[np.uint8], rows: int) -> Texts:
        """All rows have the same."""
        length = np.empty(rows, dtype=np.int32)
        length.fill(len(text))
        return cls(text, np.zeros(rows, dtype=np.int64), length)

    def for_kernel(self) -> tuple[npt.NDArray[np.uint8], Longs, Ints]:
        return as_kernel(self.heap, np.uint8), as_kernel(self.at, np.int64), as_kernel(self.length, np.int32)

    def __len__(self) -> int:
        return len(self.at)

    def __getitem__(self, row: int) -> bytes | None:
        if self.length[row] < 0:
            return None
        return self.heap[self.at[row] : self.at[row] + self.length[row]].tobytes()

    def __iter__(self) -> Iterator[bytes | None]:
        heap = self.heap.tobytes()
        places = zip(self.at.tolist(), self.length.tolist(), strict=True)
        return iter([None if length < 0 else heap[at : at + length] for at, length in places])

    def strings(self) -> list[str | None]:
        return [None if value is None else value.decode() for value in self]

    def take(self, rows: npt.NDArray[np.int64]) -> Texts:
        return Texts(self.heap, self.at[rows], self.length[rows])


@dataclass(slots=True)
class PublicationColumns:
    """Publications of one poll of one partition, defaults filled in. Rows in `errors` are not `ok` and hold nothing.

    `where` has the conditions as they came; None: no condition. `expires_at` NEVER: none. `best`: NO_BEST, HIGHEST, LOWEST.
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
    errors: list[tuple[int, SchemaError]]

    def __len__(self) -> int:
        return len(self.ok)


@dataclass(slots=True)
class RendezvousColumns:
    """Rendezvous records of one poll of one partition. Rows in `errors` are not `ok` and hold nothing.

    `kind`: TICK, SUBSCRIPTION, WITHDRAWAL, PUBLICATION. The columns up to `partitions` hold for every kind, the others for those
    that have the field: `id` and `party_id` are the subscription's and subscriber's, or the publication's and publisher's;
    `begins_at` is `starts_at` or `published_at`, `ends_at` is `ends_at` or `expires_at`. Row i went to the rendezvous partitions
    `partitions[partitions_start[i]:partitions_start[i + 1]]`. A publication without a condition has None in `where`.
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
class NotificationColumns:
    """Notifications to write, or as read. `earlier_ids` and `value` hold the rows that have any. Row i carries the content
    `carries[i]` of `contents`; -1: none. Many may carry the same."""

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

    def __len__(self) -> int:
        return len(self.role)
