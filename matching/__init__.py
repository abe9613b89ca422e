"""Decides: which subscriptions does a publication satisfy? Knows nothing of Kafka or disk."""

from matching.condition import Condition
from matching.errors import ConditionError
from matching.index import Index
from matching.values import Box, Circle, Path, Point

__all__ = ["Box", "Circle", "Condition", "ConditionError", "Index", "Path", "Point"]
