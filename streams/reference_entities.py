"""What a rendezvous partition does with entities: the second half of the definition that `streams.reference` begins.

Of each entity the current version is held. A change (a version, a withdrawal, an expiry, another version of a subscription) is told as the
difference that it makes: the pair matched before, and matches after. A subscription without transitions is told each version that matches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pastforward.columns.vocabulary import Transition
from pastforward.matching.conditions import oracle
from pastforward.schemas import CanonicalPublication, CanonicalSubscription, Rendezvous
from pastforward.schemas.records import Phase
from pastforward.streams.routing import reports

if TYPE_CHECKING:
    from pastforward.streams.reference import Found, Held, Live, Partition


class Entities:
    """Of one partition: `current` has the version in force of each, by id."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self.current: dict[str, Held] = {}

    def change(self, record: CanonicalPublication, envelope: Rendezvous, found: Found) -> None:
        """A version. It is none of this partition's if it is withdrawn, has moved away, or has expired by log time."""
        from pastforward.streams.reference import held_of, offer_of

        partition, name = self._partition, record.publication_id
        assert record.entity is not None
        version = held_of(record, envelope, offer_of(record, record.entity.previous or {}))
        before = self.current.get(name)
        if before is not None and before.origin >= version.origin:
            found.dropped = "older_version"
            return
        self.current.pop(name, None)
        after = version if partition.number in envelope.partitions else None
        if after is not None and after.expires_at > partition.progress.log_time:
            self.current[name] = after
        else:
            after = None
        self._tell_all(before, after, found)

    def expire(self, found: Found) -> None:
        """Time goes first: what has expired has left before the record that tells the time is taken."""
        now = self._partition.progress.log_time
        for held in [held for held in self.current.values() if held.expires_at <= now]:
            del self.current[held.record.publication_id]
            self._tell_all(held, None, found)

    def _tell_all(self, before: Held | None, after: Held | None, found: Found) -> None:
        for live in self._partition.subscriptions.values():
            was = before is not None and self._has(live, before)
            if after is not None and self._has(live, after):
                self._tell(live.record, after, "updated" if was else "entered", "live", found)
            elif before is not None and was:
                self._tell(live.record, before, "left", "live", found)

    def replace(self, before: Live | None, after: Live | None, found: Found) -> None:
        """A version of a subscription takes the place of another. None: it was not here, or goes on elsewhere.

        What matched before and still does is told again only if its set begins anew."""
        goes_on = before is not None and (after is None or continues(before.record, after.record))
        pause = None if before is None else before.pause
        for held in self.current.values():
            was = goes_on and before is not None and self._has(before, held)
            if after is not None and self._has(after, held):
                if not was and (after.record.transitions or held.came_after(pause)):
                    self._tell(after.record, held, "entered", "past", found)
            elif was and before is not None:
                self._tell(before.record, held, "left", "past", found)

    def _has(self, live: Live, held: Held) -> bool:
        """Does the pair match, and does this partition say so? Who has ended is told nothing more."""
        partition, record = self._partition, live.record
        if record.ends_at is not None and record.ends_at <= partition.progress.log_time:
            return False
        if not record.transitions:
            return partition._matches(live, held)
        # whoever was told of an earlier version of the routing what matched is told of this one what becomes of it
        here = reports(partition.number, live.partitions, held.partitions)
        return here and not record.paused and oracle.matches(live.query, held.offer)

    def _tell(
        self, record: CanonicalSubscription, held: Held, transition: Transition, phase: Phase, found: Found
    ) -> None:
        if not record.transitions:
            if transition != "left":
                self._partition._notify(record, held, phase, found)
        elif not self._partition.progress.silent:
            self._partition._notify(record, held, phase, found, transition=transition)


def continues(before: CanonicalSubscription, after: CanonicalSubscription) -> bool:
    """Does the set of entities go on?"""
    return before.transitions and after.transitions and before.set_began == after.set_began
