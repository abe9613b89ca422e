"""`iim`: interval index mapping. The value of an equality attribute, the intervals of a range attribute."""

from __future__ import annotations

from pastforward.streams.routing.catalog import Attribute
from pastforward.streams.routing.content import ContentScheme
from pastforward.streams.routing.rules import ByValue, Rule, by_interval


class Iim(ContentScheme):
    name = "iim"

    def rule(self, attribute: Attribute) -> Rule:
        if attribute.kind == "equality":
            return ByValue(attribute, self.partitions)
        return by_interval(attribute, self.partitions)
