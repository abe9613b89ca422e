"""`dewey`: by the first components of the topic."""

from __future__ import annotations

from streams.routing.hashing import combine
from streams.routing.records import RoutedPublication, RoutedSubscription
from streams.routing.scheme import RoutingError, Scheme


class Dewey(Scheme):
    """What is at or below `depth` goes to the one partition of its first `depth` components, what is above it to all.

    Two topics that overlap are then together: below the depth they have the same first components, above it one of
    them is everywhere. This holds for both scopes, because what a subtree contains is among what overlaps it.
    """

    name = "dewey"
    keeps_topics_together = True

    def __init__(self, partitions: int, depth: int = 1) -> None:
        super().__init__(partitions)
        if depth < 1:
            raise RoutingError(f"routing depth is {depth}; write 1 or more")
        self.depth = depth

    def subscription(self, subscription: RoutedSubscription) -> tuple[int, ...]:
        return self.of_topic(subscription.topic)

    def publication(self, publication: RoutedPublication) -> tuple[int, ...]:
        return self.of_topic(publication.topic)

    def of_topic(self, topic: str) -> tuple[int, ...]:
        """The partitions of a topic, given as dotted text."""
        components = topic.split(".", self.depth) if topic else []
        if len(components) < self.depth:
            return self.everywhere
        return (dewey_partition([int(component) for component in components[: self.depth]], self.partitions),)


def dewey_partition(components: list[int], partitions: int) -> int:
    """The partition of a path.

    Children are numbered from 1, in sequence as a rule. So each run of as many siblings as there are partitions is laid
    out round-robin, from an offset that is a hash of the parent and the run: four quarters of a cell fill four
    partitions, which a plain hash would seldom do, and no arithmetic pattern in the numbers can pile up.
    """
    *parents, last = components
    run, place = divmod(last + partitions - 1, partitions)
    offset = 0
    for component in (*parents, run):
        offset = combine(offset, component)
    return (offset % partitions + place) % partitions
