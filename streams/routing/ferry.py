"""`ferry` (Zhu and Hu): the partitions of all attribute names are rendezvous; a publication goes to each of them."""

from __future__ import annotations

import numpy as np

from pastforward.columns.hashing import text_hash, text_hashes
from pastforward.streams.routing.catalog import Catalog
from pastforward.streams.routing.columns import Placement, Publications, Subscriptions
from pastforward.streams.routing.records import RoutedPublication, RoutedSubscription
from pastforward.streams.routing.scheme import Scheme


class Ferry(Scheme):
    """A subscription is stored once, by its id, whatever it says; so every condition and semantics is served.

    Without a catalog there are no names to make rendezvous of: subscriptions go to all partitions, a publication to one.
    """

    name = "ferry"

    def __init__(self, partitions: int, catalog: Catalog | None) -> None:
        super().__init__(partitions)
        names = [attribute.name for attribute in catalog.attributes] if catalog else []
        self.rendezvous = tuple(sorted({text_hash(name) % partitions for name in names}))

    def subscription(self, subscription: RoutedSubscription) -> tuple[int, ...]:
        if not self.rendezvous:
            return self.everywhere
        return (self.rendezvous[text_hash(subscription.subscription_id) % len(self.rendezvous)],)

    def publication(self, publication: RoutedPublication) -> tuple[int, ...]:
        return self.rendezvous or (text_hash(publication.publication_id) % self.partitions,)

    def route_publications(self, publications: Publications) -> Placement:
        if not self.rendezvous:
            return super().route_publications(publications)
        return Placement.alike(self.rendezvous, len(publications))

    def route_subscriptions(self, subscriptions: Subscriptions) -> Placement:
        rows = len(subscriptions)
        if not self.rendezvous:
            return Placement.alike(self.everywhere, rows)
        chosen = text_hashes(subscriptions.ids) % np.uint64(len(self.rendezvous))
        return Placement(np.arange(rows + 1, dtype=np.int64), np.array(self.rendezvous, np.int32)[chosen])
