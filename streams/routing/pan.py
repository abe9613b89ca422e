"""`pan`: pure attribute name. Few keys, no replication; a popular attribute makes a busy partition."""

from __future__ import annotations

from pastforward.streams.routing.catalog import Attribute
from pastforward.streams.routing.content import ContentScheme
from pastforward.streams.routing.rules import ByName, Rule


class Pan(ContentScheme):
    name = "pan"

    def rule(self, attribute: Attribute) -> Rule:
        return ByName(attribute, self.partitions)
