"""What the workers could not take, as a program reads it."""

from __future__ import annotations

from dataclasses import dataclass

from pastforward.client.moments import Instant
from pastforward.errors import Refused
from pastforward.schemas import DeadLetter


@dataclass(frozen=True, slots=True)
class Refusal:
    """A dead letter: `kind` is for programs, `reason` for the person who sent the record. `letter` has the record's bytes."""

    letter: DeadLetter
    partition: int
    offset: int

    @property
    def place(self) -> str:
        """Partition and offset on the topic of dead letters: what it is called by."""
        return f"{self.partition}-{self.offset}"

    @property
    def name(self) -> str | None:
        """The id that the record's key has."""
        return None if self.letter.key is None else self.letter.key.decode("utf-8", "replace")

    def as_error(self) -> Refused:
        """What `Handle.wait` raises of it."""
        return Refused(self.name or "", self.kind, self.reason)

    @property
    def kind(self) -> str:
        return self.letter.kind

    @property
    def reason(self) -> str:
        return self.letter.reason

    @property
    def arrived_at(self) -> Instant:
        return Instant.of(self.letter.arrived_at)
