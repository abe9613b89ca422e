"""From a scheme's name to the scheme."""

from __future__ import annotations

from streams.routing.dewey import Dewey
from streams.routing.scheme import RoutingError, Scheme

SCHEMES = ("dewey",)


def make_scheme(name: str, partitions: int, depth: int = 1, catalog: object | None = None) -> Scheme:
    """The scheme of that name. `depth` is read by `dewey`, `catalog` by all others."""
    if name == "dewey":
        return Dewey(partitions, depth)
    raise RoutingError(f"unknown routing scheme {name!r}; write one of {', '.join(SCHEMES)}")
