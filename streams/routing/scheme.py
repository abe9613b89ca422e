"""What every routing scheme is, and who reports a pair."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from pastforward.schemas.acceptance import Rules
from pastforward.streams.routing.columns import Placement, Publications, Subscriptions
from pastforward.streams.routing.records import RoutedPublication, RoutedSubscription


class RoutingError(ValueError):
    """A scheme, partition count, depth or catalog that cannot be; says what to write instead."""


class Scheme(ABC):
    """Where a record goes: an immutable value, a pure function of its parameters and the record, without Kafka.

    The contract is the intersection rule: if a publication matches a subscription, whatever its semantics, the two
    share a partition. Every answer is sorted, without repeats and never empty. Any number of threads may ask.
    """

    name: ClassVar[str]
    # Self-joins and best offers compare the records of one topic: they need it to live in one partition.
    keeps_topics_together: ClassVar[bool] = False

    def __init__(self, partitions: int) -> None:
        if partitions < 1:
            raise RoutingError(f"partitions is {partitions}; write 1 or more")
        self.partitions = partitions
        self.types: dict[str, str] = {}  # that the catalog declares, by attribute
        self.everywhere: tuple[int, ...] = tuple(range(partitions))

    @abstractmethod
    def subscription(self, subscription: RoutedSubscription) -> tuple[int, ...]:
        """The partitions that store the subscription."""

    @abstractmethod
    def publication(self, publication: RoutedPublication) -> tuple[int, ...]:
        """The partitions that the publication is sent to."""

    @property
    def accepts(self) -> Rules:
        """What records it can serve. All bids for a best offer must meet at one partition."""
        return Rules(self.name, None, self.keeps_topics_together, self.types)

    @abstractmethod
    def route_subscriptions(self, subscriptions: Subscriptions) -> Placement:
        """The same as `subscription` for each row of a chunk."""

    def route_publications(self, publications: Publications) -> Placement:
        """The same as `publication` for each row of a chunk."""
        return Placement.of([self.publication(publications.row(row)) for row in range(len(publications))])


def reports(partition: int, a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether `partition` reports a pair: it is the smallest that both went to. `a` and `b` are sorted."""
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i] == b[j]:
            return a[i] == partition
        if a[i] < b[j]:
            i += 1
        else:
            j += 1
    return False
