"""The routing in force, as the directory topic says it: its version, and what it can serve."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from typing import Any, Final

import orjson
from confluent_kafka import Consumer, KafkaException, TopicPartition

from pastforward import topics
from pastforward.errors import UserError
from pastforward.schemas import SchemaError
from pastforward.schemas.acceptance import ANY_ROUTING, Rules
from pastforward.settings import Settings

TIMEOUT: Final = 30.0  # seconds for a record that is there

log = logging.getLogger("pastforward.client")


class RoutingRules:
    """Read when a record first depends on them, and once more before a refusal: they may have changed."""

    def __init__(self, settings: Settings, bootstrap: str) -> None:
        self._settings, self._bootstrap = settings, bootstrap
        self._known: Rules | None = None

    def accept(self, accept: Callable[[Rules], object], routed: bool) -> None:
        """`routed`: whether it depends on the routing. Types that a catalog declares are looked at if the routing is known already:
        else the router decides."""
        if not routed and not (self._known and self._known.types):
            accept(ANY_ROUTING)
            return
        known, self._known = self._known, self._known or self._read()
        try:
            accept(self._known or ANY_ROUTING)
        except SchemaError:
            if known is None:
                raise
            self._known = self._read()
            accept(self._known or ANY_ROUTING)

    def _read(self) -> Rules | None:
        found = read_in_force(self._settings, self._bootstrap)
        return None if found is None else found[1]


def read_in_force(settings: Settings, bootstrap: str) -> tuple[int, Rules] | None:
    """None: it cannot be read, or no worker has run yet; then the router decides."""
    name = topics.Topics(settings.topic_prefix).directory
    config = {"group.id": f"{name}-{uuid.uuid4().hex}", **topics.TO_THE_END}
    consumer = topics.make_client(Consumer, topics.client_config(settings, bootstrap, **config))
    entries: dict[bytes, Any] = {}
    try:
        first, end = topics.watermarks(consumer, name)[0]
        consumer.assign([TopicPartition(name, 0, first)])
        while first < end and (message := consumer.poll(TIMEOUT)) is not None and message.error() is None:
            entries[message.key() or b""] = message.value()
        version = int(orjson.loads(entries[b"state"])["in_force"])
        entry = orjson.loads(entries[b"version/%d" % version])
        declared = (entry["catalog"] or {}).get("attribute", ())
        return version, Rules.of(entry["scheme"], entry["depth"], {each["name"]: each["type"] for each in declared})
    except (KafkaException, UserError, KeyError, TypeError, ValueError) as error:
        log.debug("the routing is not known: %r", error)
        return None
    finally:
        consumer.close()
