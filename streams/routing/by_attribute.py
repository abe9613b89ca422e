"""Lo and Chiu's mappings of single attributes: each says what rule places an attribute."""

from __future__ import annotations

from pastforward.streams.routing.catalog import Attribute
from pastforward.streams.routing.content import ContentScheme
from pastforward.streams.routing.rules import ByName, ByValue, Rule, by_interval, by_precision


class Pan(ContentScheme):
    """Pure attribute name. Few keys, no replication; a popular attribute makes a busy partition."""

    name = "pan"

    def rule(self, attribute: Attribute) -> Rule:
        return ByName(attribute, self.partitions)


class Pav(ContentScheme):
    """Pure attribute value (Baldoni et al.). Many keys; a range is stored under each of its values."""

    name = "pav"

    def rule(self, attribute: Attribute) -> Rule:
        if attribute.kind == "equality":
            return ByValue(attribute, self.partitions)
        return by_precision(attribute, self.partitions)


class Hybrid(ContentScheme):
    """The value of an equality attribute, the name of a range attribute. No replication."""

    name = "hybrid"

    def rule(self, attribute: Attribute) -> Rule:
        if attribute.kind == "equality":
            return ByValue(attribute, self.partitions)
        return ByName(attribute, self.partitions)


class Iim(ContentScheme):
    """Interval index mapping. The value of an equality attribute, the intervals of a range attribute."""

    name = "iim"

    def rule(self, attribute: Attribute) -> Rule:
        if attribute.kind == "equality":
            return ByValue(attribute, self.partitions)
        return by_interval(attribute, self.partitions)
