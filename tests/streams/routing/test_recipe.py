"""A routing scheme of one's own, as CONTRIBUTING.md says: one class and one registration."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given

from pastforward.streams.routing import (
    Catalog,
    Directory,
    Placement,
    Publication,
    RoutedPublication,
    RoutedSubscription,
    Scheme,
    Subscription,
    Subscriptions,
    make_scheme,
)
from pastforward.streams.routing.make import _MAKERS, register
from tests.streams.routing.records import publications, subscriptions
from tests.streams.routing.test_intersection import check


class ByPublication(Scheme):
    """Subscriptions everywhere, a publication where its topic's length says."""

    name = "by-publication"

    def subscription(self, subscription: RoutedSubscription) -> tuple[int, ...]:
        return self.everywhere

    def publication(self, publication: RoutedPublication) -> tuple[int, ...]:
        return (len(publication.topic) % self.partitions,)

    def route_subscriptions(self, subscriptions: Subscriptions) -> Placement:
        return Placement.of([self.everywhere] * len(subscriptions))


@pytest.fixture(autouse=True, scope="module")
def _registered() -> Iterator[None]:
    register(ByPublication.name, lambda partitions, depth, catalog: ByPublication(partitions))
    yield
    del _MAKERS[ByPublication.name]


def test_the_directory_makes_it() -> None:
    scheme = Directory(1, "by-publication", 3, 1, Catalog()).make()
    assert isinstance(scheme, ByPublication)
    assert scheme.partitions == 3


@given(subscriptions(), publications())
def test_it_is_held_to_the_contract_of_all(wanted: Subscription, offered: Publication) -> None:
    check(make_scheme("by-publication", 3), wanted, offered)
