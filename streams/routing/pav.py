"""`pav`: pure attribute value (Baldoni et al.). Many keys; a range is stored under each of its values."""

from __future__ import annotations

from pastforward.streams.routing.catalog import Attribute
from pastforward.streams.routing.content import ContentScheme
from pastforward.streams.routing.rules import ByValue, Rule, by_precision


class Pav(ContentScheme):
    name = "pav"

    def rule(self, attribute: Attribute) -> Rule:
        if attribute.kind == "equality":
            return ByValue(attribute, self.partitions)
        return by_precision(attribute, self.partitions)
