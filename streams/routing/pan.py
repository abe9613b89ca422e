"""`pan`: pure attribute name. Few keys, no replication; a popular attribute makes a busy partition."""

from __future__ import annotations

from streams.routing.catalog import Attribute
from streams.routing.content import ContentScheme
from streams.routing.rules import ByName, Rule


class Pan(ContentScheme):
    name = "pan"

    def rule(self, attribute: Attribute) -> Rule:
        return ByName(attribute, self.partitions)
