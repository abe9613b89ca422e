"""How subscriptions use attributes: by equality, by range, or otherwise. From the subscriptions topic, one pass."""

from __future__ import annotations

from dataclasses import dataclass, field

from pastforward.matching import Condition
from pastforward.matching.conditions.normal_form import Constraint
from pastforward.schemas import Registry, SchemaError, Subscription, decode_subscription
from pastforward.schemas.acceptance import normal_form
from pastforward.settings import Settings
from pastforward.spark_batch.kafka import read_topic
from pastforward.topics import Topics


@dataclass(slots=True)
class Use:
    equality: int = 0
    range: int = 0
    other: int = 0

    @property
    def total(self) -> int:
        return self.equality + self.range + self.other


@dataclass(slots=True)
class Usage:
    subscriptions: int = 0
    attributes: dict[str, Use] = field(default_factory=dict)

    def add(self, condition: Condition) -> None:
        self.subscriptions += 1
        for disjunct in condition.disjuncts:
            for name, constraint in disjunct:
                use = self.attributes.setdefault(name, Use())
                sort = _sort(constraint)
                setattr(use, sort, getattr(use, sort) + 1)


def _sort(constraint: Constraint) -> str:
    if constraint.included is not None:
        return "equality"
    return "range" if constraint.low is not None or constraint.high is not None else "other"


def read_usage(settings: Settings, bootstrap: str, registry: Registry | None) -> Usage:
    """Of all that stand in the topic; what the router refuses does not count."""
    latest: dict[bytes, Condition | None] = {}
    for message in read_topic(settings, bootstrap, Topics(settings.topic_prefix).subscriptions):
        try:
            record = decode_subscription(message.key(), message.value(), registry)
            latest[message.key()] = Condition(normal_form(record.where)) if isinstance(record, Subscription) else None
        except SchemaError:
            continue
    usage = Usage()
    for condition in latest.values():
        if condition is not None:
            usage.add(condition)
    return usage
