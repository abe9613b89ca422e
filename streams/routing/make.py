"""From a scheme's name to the scheme."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pastforward.streams.routing.catalog import Catalog
from pastforward.streams.routing.constraints import Constraints
from pastforward.streams.routing.dewey import Dewey
from pastforward.streams.routing.ferry import Ferry
from pastforward.streams.routing.hybrid import Hybrid
from pastforward.streams.routing.iim import Iim
from pastforward.streams.routing.pan import Pan
from pastforward.streams.routing.pav import Pav
from pastforward.streams.routing.scheme import RoutingError, Scheme

_BY_CONTENT: Final[Mapping[str, Callable[[int, Catalog | None], Scheme]]] = {
    scheme.name: scheme for scheme in (Ferry, Pan, Pav, Hybrid, Iim, Constraints)
}
SCHEMES: Final = ("dewey", *_BY_CONTENT)


def make_scheme(name: str, partitions: int, depth: int = 1, catalog: Catalog | None = None) -> Scheme:
    """The scheme of that name. `depth` is read by `dewey`, `catalog` by all others."""
    if name == Dewey.name:
        return Dewey(partitions, depth)
    if name in _BY_CONTENT:
        return _BY_CONTENT[name](partitions, catalog)
    raise RoutingError(f"unknown routing scheme {name!r}; write one of {', '.join(SCHEMES)}")
