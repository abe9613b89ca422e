"""The seam between moving records and deciding: what a partition does with a chunk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from pastforward.streams.stages.outgoing import Outgoing


class Allowed(NamedTuple):
    """How far a stage may go for now. `final`: it will never go further. `say`: to be sent first."""

    limit: int | None = None
    final: bool = False
    say: Outgoing | None = None


class Stage(Protocol):
    """One per owned partition, called by one chunk at a time, in a thread: it may compute, and must not await."""

    arrived_at: int
    """The highest arrival in a partition of the input so far, committed beside the offset; 0 elsewhere."""

    def allowed(self, position: int) -> Allowed:
        """Asked before each chunk, and when the directory has news. `position`: where the stage stands."""

    def process(self, records: Sequence[Any]) -> Outgoing:
        """What the records, in the order of the log, lead to. Staged until `committed`. Atomic: if it raises, nothing has happened.

        A record has `offset`, `timestamp` (milliseconds), `key` and `value`; of which partition it is, the stage knows.
        """

    @property
    def searching(self) -> bool:
        """Whether there is more to find than what the records so far have led to: `search` goes on with that."""
        ...

    def search(self) -> Outgoing:
        """A part of it. Other records may be processed between two parts."""

    def room(self, records: Sequence[Any]) -> int:
        """How many of these, from the first one on, may be processed now. Less than all only while `searching`."""

    def takes_long(self, records: Sequence[Any]) -> bool:
        """Whether they may, few as they are: then they are not for the event loop. Answered at once."""

    def refuse(self, record: Any, error: Exception) -> Outgoing:
        """Instead of `process`, for a record that raises there by itself: its dead letter. The record has no effect, now and later."""

    def idle(self) -> Outgoing | None:
        """Asked when the partition has been silent for a second."""

    def passed(self, offset: int) -> Outgoing | None:
        """What is to be remembered of it that no record lies between the last one and `offset`. None: nothing."""

    def committed(self, offset: int) -> None:
        """Everything up to `offset` is safe at the broker: make the state durable. In a thread as well."""

    def close(self) -> None: ...
