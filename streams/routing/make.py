"""From a scheme's name to the scheme."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pastforward.streams.routing.by_attribute import Hybrid, Iim, Pan, Pav
from pastforward.streams.routing.catalog import Catalog
from pastforward.streams.routing.constraints import Constraints
from pastforward.streams.routing.dewey import Dewey
from pastforward.streams.routing.ferry import Ferry
from pastforward.streams.routing.scheme import RoutingError, Scheme

Make = Callable[[int, int, Catalog | None], Scheme]  # partitions, depth, catalog

_MAKERS: dict[str, Make] = {}


def register(name: str, make: Make) -> None:
    """A scheme can be made by its name from here on."""
    _MAKERS[name] = make


register(Dewey.name, lambda partitions, depth, _: Dewey(partitions, depth))
register(Ferry.name, lambda partitions, _, catalog: Ferry(partitions, catalog))
register(Pan.name, lambda partitions, _, catalog: Pan(partitions, catalog))
register(Pav.name, lambda partitions, _, catalog: Pav(partitions, catalog))
register(Hybrid.name, lambda partitions, _, catalog: Hybrid(partitions, catalog))
register(Iim.name, lambda partitions, _, catalog: Iim(partitions, catalog))
register(Constraints.name, lambda partitions, _, catalog: Constraints(partitions, catalog))

SCHEMES: Final = tuple(_MAKERS)  # our own


def make_scheme(name: str, partitions: int, depth: int = 1, catalog: Catalog | None = None) -> Scheme:
    """The scheme of that name. `depth` is read by `dewey`, `catalog` by all others; the types that it declares hold under any."""
    if name not in _MAKERS:
        raise RoutingError(f"unknown routing scheme {name!r}; write one of {', '.join(_MAKERS)}")
    scheme = _MAKERS[name](partitions, depth, catalog)
    if catalog is not None:
        scheme.types = {attribute.name: attribute.type for attribute in catalog.attributes}
    return scheme
