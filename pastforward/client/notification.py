"""A notification, as a program reads it."""

from __future__ import annotations

from typing import Any

from pastforward.client.models import ContentError, Convert
from pastforward.client.moments import Instant
from pastforward.client.tokens import write_token
from pastforward.errors import UserError
from pastforward.matching.conditions.values import Value
from pastforward.schemas import Content
from pastforward.schemas import Notification as Record
from pastforward.schemas.records import Phase, Role


class Notification:
    """What a recipient receives. Times are aware datetimes, with `micros` beside; `record` has the fields as they are on the topic.

    Two are equal when they are the same notification, however often it was read.
    """

    __slots__ = ("_convert", "_offset", "_partition", "_typed", "record")

    def __init__(self, record: Record, partition: int, offset: int, convert: Convert | None = None) -> None:
        """`convert`: makes `data` of the attributes."""
        self.record = record
        self._partition, self._offset = partition, offset
        self._convert = convert
        self._typed: Any = None

    @property
    def token(self) -> str:
        """Where a reader goes on behind it: `notifications(recipient, after=token)`."""
        return write_token({self._partition: self._offset + 1})

    @property
    def place(self) -> tuple[int, int]:
        """Partition and offset on the topic."""
        return self._partition, self._offset

    @property
    def notification_id(self) -> str:
        return self.record.notification_id

    @property
    def subscription_id(self) -> str:
        return self.record.subscription_id

    @property
    def subscription_version(self) -> str:
        return self.record.subscription_version

    @property
    def publication_id(self) -> str:
        return self.record.publication_id

    @property
    def recipient_id(self) -> str:
        return self.record.recipient_id

    @property
    def role(self) -> Role:
        return self.record.role

    @property
    def topic(self) -> str:
        return self.record.topic

    @property
    def published_at(self) -> Instant:
        return Instant.of(self.record.published_at)

    @property
    def matched_at(self) -> Instant:
        return Instant.of(self.record.matched_at)

    @property
    def phase(self) -> Phase:
        """`past`, `live`, `backfill` or `best`."""
        return self.record.phase

    @property
    def earlier_ids(self) -> tuple[str, ...]:
        return self.record.earlier_ids

    @property
    def value(self) -> Value | None:
        return self.record.value

    @property
    def content(self) -> Content | None:
        """What was published; None: the subscription asks for ids alone."""
        return self.record.content

    @property
    def data(self) -> Any:
        """The content as an instance of the `model` that was asked for. Raises `error`, if it is none."""
        if self._convert is None:
            raise UserError("data needs a class: give model= where notifications are asked for")
        if self._typed is None:
            try:
                if self.record.content is None:
                    raise ContentError(None, "the notification has no content: the subscription asks for ids alone")
                self._typed = self._convert(self.record.content.attributes)
            except ContentError as error:
                self._typed = error
        if isinstance(self._typed, ContentError):
            raise self._typed
        return self._typed

    @property
    def error(self) -> ContentError | None:
        """Why the content is not what the model says; None: it is. The notification came all the same, and reading goes on."""
        try:
            self.data  # noqa: B018
        except ContentError as error:
            return error
        return None

    def __getattr__(self, name: str) -> Any:
        """Fields that the record has beside those above."""
        if name.startswith("_") or name == "record":
            raise AttributeError(name)
        return getattr(self.record, name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Notification) and other.notification_id == self.notification_id

    def __hash__(self) -> int:
        return hash(self.record.notification_id)

    def __repr__(self) -> str:
        return (
            f"Notification({self.phase} {self.recipient_id!r}: {self.subscription_id!r} ← {self.publication_id!r} "
            f"at {self.topic or 'the root'!r}, {self.published_at.isoformat()})"
        )
