"""Which rendezvous partitions a record goes to: pure functions, one file a scheme."""

from streams.routing.make import SCHEMES, make_scheme
from streams.routing.records import Publication, RoutedPublication, RoutedSubscription, Subscription
from streams.routing.scheme import RoutingError, Scheme, reports

__all__ = [
    "SCHEMES",
    "Publication",
    "RoutedPublication",
    "RoutedSubscription",
    "RoutingError",
    "Scheme",
    "Subscription",
    "make_scheme",
    "reports",
]
