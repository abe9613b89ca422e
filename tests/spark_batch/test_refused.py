"""What a matcher refuses is not told by the history either."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pastforward import broker as embedded
from pastforward.matching.conditions.normal_form import ALWAYS
from pastforward.schemas import (
    BackfillRequest,
    CanonicalPublication,
    CanonicalSubscription,
    Rendezvous,
    SchemaError,
    Version,
    dead_letter,
    encode,
)
from pastforward.schemas.limits import MAX_DEAD_LETTER_BYTES
from pastforward.spark_batch.backfill import backfill
from pastforward.spark_batch.compact import compact
from pastforward.spark_batch.ingest import ingest
from pastforward.spark_batch.notes import Note
from pastforward.spark_batch.query import query
from pastforward.spark_batch.refused import Refusal, refusals, refusals_in, refused_by_all, without_refused
from pastforward.spark_batch.requests import Open
from pastforward.spark_batch.tables import Places
from pastforward.streams.reference import query_of
from tests.conftest import StartWorker
from tests.outside import Outside
from tests.spark_batch.conftest import MakeSettings
from tests.spark_batch.test_end_to_end import DAY, now
from tests.streams.test_poison import POISON, lay_traps

BAD = SchemaError("internal", "the record cannot be processed")


def letter(topic: str, value: bytes | None, number: int = 2) -> bytes:
    return encode(dead_letter(topic, number, 7, 0, BAD, b"key", value))


def envelope(record: Any, origin: Any = "publications") -> bytes:
    return encode(Rendezvous(origin, 1, 17, 5, 3, (0, 2), record))


def published(size: int = 0) -> CanonicalPublication:
    return CanonicalPublication("p", None, "", 0, body=b"x" * size)


def asked() -> CanonicalSubscription:
    return CanonicalSubscription("s", "anna", Version(0, 0, 0), "", "overlap", 0, None, "published", ALWAYS)


def test_letters_of_publications_that_a_matcher_refused() -> None:
    large = envelope(published(MAX_DEAD_LETTER_BYTES))
    found = refusals_in(
        "a.",
        [
            letter("a.rendezvous", envelope(published())),
            letter("a.rendezvous-12", envelope(published())),
            letter("a.rendezvous", large),  # of which the letter has the beginning
            # and none of these
            letter("a.rendezvous", envelope(asked(), "subscriptions")),
            letter("a.rendezvous", encode(Rendezvous("none", 0, 0, 0, 1, (0,)))),
            letter("a.rendezvous", b"no record of ours"),
            letter("a.rendezvous", envelope(published())[:12]),
            letter("a.rendezvous", None),
            letter("a.publications", b"rendezvous"),
            letter("b.rendezvous", envelope(published())),
            letter("a.rendezvous-x", envelope(published())),
            b"rendezvous",
            None,
        ],
        None,
    )
    assert found == [Refusal(version, 2, 1, 17, (0, 2)) for version in (1, 12, 1)]


def test_who_has_refused_it_decides() -> None:
    found = [
        Refusal(1, 0, 0, 5, (0, 1)),
        Refusal(1, 1, 0, 5, (0, 1)),
        Refusal(1, 0, 0, 6, (0, 1)),
        Refusal(2, 1, 0, 6, (0, 1)),
        Refusal(1, 1, 1, 5, (1,)),
    ]
    assert refused_by_all(found) == [(0, 5), (1, 5)]


def test_a_request_is_not_told_what_its_partition_refused(spark: Any) -> None:
    found = [Refusal(2, 0, 0, 5, (0, 1)), Refusal(1, 1, 0, 6, (0, 1)), Refusal(3, 0, 0, 7, (0, 1))]
    requests = [
        Open(
            b"",
            0,
            BackfillRequest(asked(), rendezvous_partition=number, horizon=0, log_time=0, routing_version=2, cut={}),
        )
        for number in (0, 1)
    ]
    pairs = spark.createDataFrame(
        [(n, 0, o) for n in (0, 1) for o in (4, 5, 6, 7)], "asked int, partition int, offset bigint"
    )
    left = without_refused(spark, pairs, requests, found)
    assert left.columns == pairs.columns
    assert sorted(map(tuple, left.collect())) == [(0, 0, 4), (0, 0, 7), (1, 0, 4), (1, 0, 5), (1, 0, 7)]
    assert without_refused(spark, pairs, requests, []) is pairs


def told(outside: Outside, name: str) -> list[tuple[str, str]]:
    found = [json.loads(message.value()) for message in outside.records["notifications"]]
    return sorted((n["publication_id"], n["phase"]) for n in found if n["subscription_id"] == name)


@pytest.mark.broker
def test_the_history_refuses_what_the_matcher_has_refused(
    spark: Any, broker: embedded.Broker, start_worker: StartWorker, history: MakeSettings
) -> None:
    common: dict[str, Any] = {
        "topic_prefix": "refused.",
        "partitions": 2,
        "hot_window": "10m",
        "notification_format": "json",
    }
    start_worker(**common, prepare=lay_traps).wait_ready()
    settings = history(bootstrap_servers=broker.bootstrap, **common)
    places = Places(settings.history)
    outside = Outside(broker.bootstrap, "refused.")
    try:
        old = now() - DAY
        outside.subscribe("watch", starts_at=old - DAY)
        outside.stored("watch", 2)
        for name, topic in (("bad", "1.1"), ("everywhere", "")):
            outside.publish(name, topic=topic, published_at=old, attributes={POISON: 1})
        outside.wait("dead-letters", lambda m: True, 3)
        outside.publish("good", topic="1.1", published_at=old)
        outside.publish(
            "bad", topic="1.1", published_at=old
        )  # as who has read the letter sends it again: the first of its id
        outside.notified("watch", 2)
        outside.subscribe("later", topic="1", starts_at=old - DAY)
        outside.wait("backfill-requests", lambda m: m.key().startswith(b"later\0"))
        assert ingest(spark, settings, quiet=True).facts["ingested"] == 4
        backfill(spark, settings, quiet=True)
        outside.notified("later", 2)
        assert told(outside, "later") == [("bad", "backfill"), ("good", "backfill")]

        # the same when the letters are gone, and after a compaction
        assert {each.offset for each in refusals(spark, places)}
        assert len(refused_by_all(refusals(spark, places))) == 2
        assert Note(spark, places, "letters").read() is not None
        compact(spark, settings, vacuum_hours=None, quiet=True)
        shown: list[dict[str, Any]] = []
        query(spark, settings, query_of(asked()), limit=None, parquet=None, show=shown.append)
        assert sorted((each["publication_id"], each["attributes"]) for each in shown) == [("bad", {}), ("good", {})]
        outside.subscribe("last", topic="1", starts_at=old - DAY)
        outside.wait("backfill-requests", lambda m: m.key().startswith(b"last\0"))
        backfill(spark, settings, quiet=True)
        outside.notified("last", 2)
        assert told(outside, "last") == [("bad", "backfill"), ("good", "backfill")]
    finally:
        outside.close()
