"""Which rendezvous partitions a record goes to: pure functions, one file a scheme."""

from pastforward.streams.routing.catalog import Attribute, Catalog, CatalogError, Seen
from pastforward.streams.routing.columns import Placement, Publications, Subscriptions
from pastforward.streams.routing.directory import Directory, read_catalog
from pastforward.streams.routing.make import SCHEMES, make_scheme
from pastforward.streams.routing.records import Publication, RoutedPublication, RoutedSubscription, Subscription
from pastforward.streams.routing.scheme import RoutingError, Scheme, reports

__all__ = [
    "SCHEMES",
    "Attribute",
    "Catalog",
    "CatalogError",
    "Directory",
    "Placement",
    "Publication",
    "Publications",
    "RoutedPublication",
    "RoutedSubscription",
    "RoutingError",
    "Scheme",
    "Seen",
    "Subscription",
    "Subscriptions",
    "make_scheme",
    "read_catalog",
    "reports",
]
