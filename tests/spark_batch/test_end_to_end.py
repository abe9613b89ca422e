"""Publications older than the hot window, subscriptions that reach back, a worker, ingest and backfill, on a real broker."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest

from pastforward import broker as embedded
from pastforward.schemas import Content, decode_notification
from pastforward.spark_batch.backfill import backfill
from pastforward.spark_batch.ingest import ingest
from pastforward.spark_batch.kafka import read_topic
from pastforward.spark_batch.tables import Places, read_publications
from tests.conftest import StartWorker
from tests.outside import Outside
from tests.spark_batch.conftest import MakeSettings

pytestmark = pytest.mark.broker

MINUTE = 60_000_000
DAY = 24 * 60 * MINUTE
numbers = itertools.count()


def now() -> int:
    return time.time_ns() // 1000


def told(outside: Outside) -> list[tuple[str, str, str, str]]:
    import json

    found = [json.loads(message.value()) for message in outside.records["notifications"]]
    return [(n["subscription_id"], n["publication_id"], n["role"], n["phase"]) for n in found]


def test_every_pair_once_whichever_side_finds_it(
    spark: Any, broker: embedded.Broker, start_worker: StartWorker, history: MakeSettings
) -> None:
    prefix = "history-all."
    common: dict[str, Any] = {
        "topic_prefix": prefix,
        "partitions": 2,
        "hot_window": "10m",
        "notification_format": "json",
    }
    start_worker(**common).wait_ready()
    settings = history(bootstrap_servers=broker.bootstrap, **common)
    outside = Outside(broker.bootstrap, prefix)
    try:
        old = now() - DAY
        for number in range(8):
            fields: dict[str, Any] = {"attributes": {"x": number}, "topic": f"{number % 3}.1"}
            carried = {"where": f"y >= {number}", "body": "Y2FycmllZA=="}
            outside.publish(f"cold-{number}", published_at=old + number, publisher_id="p", **carried, **fields)
            outside.publish(f"hot-{number}", **fields)
        outside.publish("expired", topic="1.1", attributes={"x": 3}, published_at=old, expires_at=old + 5)
        outside.publish("cold-1", topic="1.1", attributes={"x": 7}, published_at=old)  # a repeat: never counts
        outside.send("publications", "bad", b"no publication")
        for number in range(8):
            outside.stored(f"cold-{number}", 2 if number == 1 else 1)
            outside.stored(f"hot-{number}")
        outside.stored("expired")

        outside.subscribe("root", starts_at=old - DAY, where="x >= 4")
        outside.subscribe("one", topic="1", starts_at=old - DAY, where="x IN (1, 7)")
        outside.subscribe("narrow", topic="2", starts_at=old + 4, ends_at=old + 6, deliver="ids")
        outside.subscribe("gone", topic="1", starts_at=old - DAY)
        outside.subscribe("first", topic="1", starts_at=old - DAY, where="x = 1", subscriber_id="anna")
        outside.stored("first")
        # what `first` has too is left out, although it is withdrawn before the history answers
        second = {"topic": "1", "starts_at": old - DAY, "where": "x IN (1, 7)", "subscriber_id": "anna"}
        outside.subscribe("second", self_join=True, **second)
        outside.wait("backfill-requests", lambda m: m.key().startswith(b"root\0"), 2)
        for name in (b"one\0", b"narrow\0", b"gone\0", b"first\0", b"second\0"):
            outside.wait("backfill-requests", lambda m, name=name: m.key().startswith(name))
        for gone in ("gone", "first"):
            outside.send("subscriptions", gone, None)
            outside.stored(gone, 2)

        before = backfill(spark, settings, quiet=True).facts
        assert (before["answered"], before["waiting"], before["over"]) == (0, 5, 2)
        facts = ingest(spark, settings, quiet=True).facts
        assert (facts["ingested"], facts["unreadable"]) == (18, 1)
        assert read_publications(spark, Places(settings.history)).count() == 18
        first = backfill(spark, settings, quiet=True).facts
        assert (first["answered"], first["waiting"]) == (5, 0)
        second = backfill(spark, settings, quiet=True).facts
        assert (second["answered"], second["notifications"]) == (0, 0)
        outside.publish("late", topic="1.1", published_at=old, attributes={"x": 7})
        outside.notified("one", 2 + 4 + 1)
        outside.notified("second", 1 + 2 + 1)

        expected = set()
        for name, topic, xs in (("root", "", range(4, 8)), ("one", "1", (1, 7)), ("second", "1", (7,))):
            for x in xs:
                if not topic or x % 3 == 1:
                    expected |= {
                        (name, f"hot-{x}", "subscriber", "past"),
                        (name, f"cold-{x}", "subscriber", "backfill"),
                    }
                    expected.add((name, f"cold-{x}", "publisher", "backfill"))
            expected.add((name, "late", "subscriber", "live"))
        expected |= {("narrow", "cold-5", "subscriber", "backfill"), ("narrow", "cold-5", "publisher", "backfill")}
        found = [each for each in told(outside) if each[0] not in ("gone", "first")]
        assert sorted(found) == sorted(expected)
        for each in [decode_notification(message.value()) for message in outside.records["notifications"]]:
            if each.subscription_id == "narrow":
                assert each.content is None
            else:
                name = each.publication_id
                x = 7 if name == "late" else int(name.rpartition("-")[2])
                cold = name.startswith("cold")
                body = b"carried" if cold else None
                assert each.content == Content(
                    {"x": x}, f"y >= {x}" if cold else None, body, "p" if cold else None, None
                ), name
        left = {m.key(): m.value() for m in read_topic(settings, broker.bootstrap, f"{prefix}backfill-requests")}
        assert left
        assert set(left.values()) == {None}
    finally:
        outside.close()
