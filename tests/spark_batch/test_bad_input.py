"""Everything that is refused, sent to a worker and to the history: both keep the same publications, and neither ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from pastforward import broker as embedded
from pastforward.matching import Condition
from pastforward.matching.conditions.oracle import Subscription
from pastforward.schemas import CanonicalPublication, decode_dead_letter, decode_rendezvous
from pastforward.spark_batch.backfill import backfill
from pastforward.spark_batch.compact import compact
from pastforward.spark_batch.ingest import ingest
from pastforward.spark_batch.query import query
from pastforward.spark_batch.replay import replay
from pastforward.spark_batch.statistics import statistics
from pastforward.spark_batch.tables import Places, read_publications
from tests.bad_records import ALL, PUBLISHED, key_of
from tests.conftest import StartWorker
from tests.outside import PATIENCE
from tests.spark_batch.conftest import MakeSettings
from tests.streams.system import Log, Setup

pytestmark = pytest.mark.broker

# Kafka itself refuses a record without a key on a compacted topic.
SENT = [sent for sent in ALL if sent.topic == "publications" or key_of(sent) is not None]


def test_router_and_history_keep_the_same(
    spark: Any, broker: embedded.Broker, start_worker: StartWorker, history: MakeSettings, tmp_path: Path
) -> None:
    setup = Setup("bad.", partitions=1, hot_window="10m")
    worker = start_worker(**setup.worker())
    worker.wait_ready()
    # compressed, so that a key or a value beyond the limit of the topic reaches the broker
    limits = {"compression.type": "zstd", "message.max.bytes": 64 << 20, "linger.ms": 100}
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, **limits})
    failed: list[Any] = []
    for sent in SENT:
        producer.produce(
            setup.prefix + sent.topic,
            sent.value,
            key_of(sent),
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    # a subscription that asks the history for everything, and one that asks for what came before
    everything = b'{"subscriber_id": "s", "starts_at": "0001-01-01T00:00:00Z"}'
    producer.produce("bad.subscriptions", everything, b"everything")
    producer.produce(
        "bad.subscriptions", everything[:-1] + b', "self_join": true, "where": "previous.x IS NULL"}', b"before"
    )
    assert producer.flush(PATIENCE) == 0
    assert failed == []
    log = Log(broker.bootstrap, setup)
    log.wait(lambda: None)
    assert worker.process.poll() is None, worker.fate()

    letters = [decode_dead_letter(m.value()) for m in log.each("dead-letters")]
    # what the router has taken, the matcher takes
    assert [(letter.offset, letter.reason) for letter in letters if letter.topic == setup.prefix + "rendezvous"] == []
    offsets = {(m.topic(), m.offset()): m for topic in ("publications", "subscriptions") for m in log.each(topic)}
    known = {(sent.topic, key_of(sent), sent.value): sent for sent in SENT}
    assert len(known) == len(SENT)  # each can be told from all others
    refused = {(letter.topic, letter.offset): letter.kind for letter in letters}
    for place, message in offsets.items():
        expected = known.get((place[0].removeprefix(setup.prefix), message.key(), message.value()))
        assert refused.get(place) == (expected.kind if expected else None), (expected, refused.get(place))
    envelopes = [decode_rendezvous(m.value()) for m in log.each("rendezvous")]
    taken = {each.offset for each in envelopes if isinstance(each.record, CanonicalPublication)}
    assert len(taken) == sum(sent.kind is None for sent in PUBLISHED)

    settings = history(bootstrap_servers=broker.bootstrap, topic_prefix=setup.prefix, hot_window="10m")
    facts = ingest(spark, settings, quiet=True).facts
    assert facts["unreadable"] == sum(sent.kind is not None for sent in PUBLISHED)
    rows = read_publications(spark, Places(settings.history)).select("offset").collect()
    assert sorted(row["offset"] for row in rows) == sorted(taken)

    answered = backfill(spark, settings, quiet=True).facts
    assert answered["refused"] == answered["skipped"] == 0
    shown: list[dict[str, Any]] = []
    found = query(spark, settings, Subscription(), limit=None, parquet=None, show=shown.append).facts
    assert (found["rows"], found["skipped"]) == (len(taken), 0)
    assert {"0001-01-01T00:00:00+00:00", "9999-12-31T23:59:59.999999+00:00"} <= {each["published_at"] for each in shown}
    asked = {"all": Subscription(), "before": Subscription(Condition.parse("previous.x IS NULL").disjuncts)}
    summary, _ = replay(spark, settings, asked, quiet=True)
    assert (summary.facts["matches"], summary.facts["skipped"]) == (2 * len(taken), 0)
    seen = statistics(spark, settings, catalog=tmp_path / "catalog.toml", page=None, quiet=True).facts
    assert (seen["publications"], seen["skipped"]) == (len(taken), 0)
    compact(spark, settings, vacuum_hours=None, quiet=True)
    assert read_publications(spark, Places(settings.history)).count() == len(taken)
