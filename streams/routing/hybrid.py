"""`hybrid`: the value of an equality attribute, the name of a range attribute. No replication."""

from __future__ import annotations

from pastforward.streams.routing.catalog import Attribute
from pastforward.streams.routing.content import ContentScheme
from pastforward.streams.routing.rules import ByName, ByValue, Rule


class Hybrid(ContentScheme):
    name = "hybrid"

    def rule(self, attribute: Attribute) -> Rule:
        if attribute.kind == "equality":
            return ByValue(attribute, self.partitions)
        return ByName(attribute, self.partitions)
