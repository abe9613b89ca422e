"""Compiles the kernels of all schemes, by routing a record of each kind. What is compiled is kept on disk."""

from __future__ import annotations

from pastforward.matching.conditions.condition import Condition
from pastforward.streams.routing.catalog import Attribute, Catalog
from pastforward.streams.routing.columns import Publications, Subscriptions
from pastforward.streams.routing.make import SCHEMES, make_scheme
from pastforward.streams.routing.records import Publication, Subscription


def compile_kernels() -> None:
    catalog = Catalog((Attribute("a", "integer", "range", (0, 9), 2, 1.0),), ("a < 5", "a >= 5"))
    publications = Publications.of([Publication("p", "1", {"a": 1})])
    subscriptions = Subscriptions.of([Subscription("s", "1", condition=Condition.parse("a > 2").disjuncts)])
    for name in SCHEMES:
        scheme = make_scheme(name, 2, catalog=catalog)
        scheme.route_publications(publications)
        scheme.route_subscriptions(subscriptions)
