"""What the directory says: the scheme, the catalog, the partitions and the version, as one immutable value."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pastforward.schemas import is_fault
from pastforward.streams.routing.catalog import Catalog, CatalogError
from pastforward.streams.routing.make import make_scheme
from pastforward.streams.routing.scheme import RoutingError, Scheme
from pastforward.streams.routing.toml_lines import Lines


@dataclass(frozen=True, slots=True)
class Directory:
    """A later version replaces an earlier one. Equal values route alike, on every machine.

    A version that was made on a running system reads the publications again from `starts` on, by partition: everything that
    had arrived at `begins_at` (microseconds) or later.
    """

    version: int
    scheme: str
    partitions: int
    depth: int = 1
    catalog: Catalog | None = None
    begins_at: int = 0
    starts: tuple[int, ...] = ()

    def make(self) -> Scheme:
        """The scheme itself. Raises `RoutingError` if the parts do not fit each other."""
        return make_scheme(self.scheme, self.partitions, self.depth, self.catalog)

    def to_bytes(self) -> bytes:
        """JSON, with sorted keys: equal values have equal bytes."""
        document = {
            "version": self.version,
            "scheme": self.scheme,
            "partitions": self.partitions,
            "depth": self.depth,
            "catalog": None if self.catalog is None else self.catalog.to_json(),
            "begins_at": self.begins_at,
            "starts": self.starts,
        }
        return json.dumps(document, sort_keys=True, ensure_ascii=False).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Directory:
        try:
            document: dict[str, Any] = json.loads(data)
            catalog = document["catalog"]
            return cls(
                int(document["version"]),
                str(document["scheme"]),
                int(document["partitions"]),
                int(document["depth"]),
                None if catalog is None else Catalog.from_json(catalog),
                int(document["begins_at"]),
                tuple(document["starts"]),
            )
        except Exception as error:  # whatever is in it: it was written by something else
            if isinstance(error, RoutingError) or is_fault(error):
                raise
            raise RoutingError(f"not an entry of the directory: {error!r}; it was written by something else") from None


def read_catalog(text: str, scheme: str, partitions: int) -> Catalog:
    """A catalog from TOML that fits the scheme and the partitions of the live topics, or `CatalogError` with the line."""
    catalog = Catalog.from_toml(text)
    try:
        make_scheme(scheme, partitions, catalog=catalog)
    except CatalogError as error:
        if error.partition is None:
            raise
        line = Lines(text).of("partition", error.partition, "where")
        raise CatalogError(f"line {line}: {error}", error.partition) from None
    return catalog
