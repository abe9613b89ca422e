"""`hybrid`: the value of an equality attribute, the name of a range attribute. No replication."""

from __future__ import annotations

from streams.routing.catalog import Attribute
from streams.routing.content import ContentScheme
from streams.routing.rules import ByName, ByValue, Rule


class Hybrid(ContentScheme):
    name = "hybrid"

    def rule(self, attribute: Attribute) -> Rule:
        if attribute.kind == "equality":
            return ByValue(attribute, self.partitions)
        return ByName(attribute, self.partitions)
