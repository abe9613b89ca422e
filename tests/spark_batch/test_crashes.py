"""Whatever moment a job dies at, the next run ends as if it had not. Here the moments are chosen; `test_kills` takes random ones."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition

from pastforward import broker as embedded
from pastforward import topics
from pastforward.client import Client
from pastforward.errors import UserError
from pastforward.schemas import Publication, Version, decode_notification
from pastforward.settings import Settings
from pastforward.spark_batch import backfill as backfill_module
from pastforward.spark_batch.backfill import backfill
from pastforward.spark_batch.compact import compact
from pastforward.spark_batch.ingest import check_loss, ingest
from pastforward.spark_batch.kafka import read_topic
from pastforward.spark_batch.outbox import runs
from pastforward.spark_batch.position import ingested
from pastforward.spark_batch.publisher import Publisher
from pastforward.spark_batch.requests import read_requests
from pastforward.spark_batch.tables import OUTBOX, Places, ensure_outbox, ensure_publications, read_publications
from tests.outside import PATIENCE
from tests.spark_batch.conftest import MakeSettings
from tests.spark_batch.requests import FAR, ask, stand

pytestmark = pytest.mark.broker


class Killed(BaseException):
    """No handler of the jobs may catch it."""


def die(*_: Any, **__: Any) -> None:
    raise Killed


publish = Publisher.publish


def publish_or_die(self: Publisher, places: Places, names: list[str], *rest: Any) -> Any:
    return die() if names else publish(self, places, names, *rest)


def backfill_dies(spark: Any, settings: Settings) -> None:
    with pytest.raises(Killed):
        backfill(spark, settings, quiet=True)


def prepare(history: MakeSettings, broker: embedded.Broker, prefix: str) -> Settings:
    settings = history(bootstrap_servers=broker.bootstrap, topic_prefix=prefix, partitions=1)
    topics.ensure(settings, topics.connect(settings, broker.bootstrap))
    return settings


def notified(settings: Settings, broker: embedded.Broker) -> Counter[tuple[str, str]]:
    records = read_topic(settings, broker.bootstrap, f"{settings.topic_prefix}notifications")
    found = [decode_notification(message.value()) for message in records]
    assert len({n.notification_id for n in found}) == len(found)
    return Counter((n.subscription_id, n.publication_id) for n in found)


def test_a_backfill_that_dies_anywhere_neither_loses_nor_repeats(
    spark: Any, broker: embedded.Broker, history: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = prepare(history, broker, "crash.")
    with Client(settings=settings) as client:
        now = time.time_ns() // 1000  # within the hot window when they come, so that each finds the earlier ones
        client.publish_many(
            Publication(f"p{n}", topic="1", published_at=now + n, attributes={"x": n}, self_join=n == 3)
            for n in range(6)
        )
        # the same id again: the definition keeps the first
        client.publish_many([Publication("p5", topic="1", published_at=now, attributes={"x": 0})])
    assert ingest(spark, settings, quiet=True).facts["ingested"] == 7

    ask(settings, "low", {0: 6}, "x < 2")
    ask(settings, "high", {0: 4}, "x >= 3")  # p5 came after the cut
    ask(settings, "none", {0: 6}, "x > 100")
    ask(settings, "replaced", {0: 6}, version=Version(5, 0, 1))
    with Client(settings=settings) as client:
        stand(settings, client, "replaced", Version(9, 0, 2))
        client._send(f"{settings.topic_prefix}backfill-requests", [("unreadable\0x\x000", b"no request")])
    ask(settings, "early", {0: 7})  # waits: offset 7 is not there yet

    # before the outbox has its commit
    with monkeypatch.context() as patched:
        patched.setattr(backfill_module, "write_run", die)
        backfill_dies(spark, settings)
    assert runs(Places(settings.history)) == []
    # after it, before anything is sent
    with monkeypatch.context() as patched:
        patched.setattr(Publisher, "publish", publish_or_die)
        backfill_dies(spark, settings)
    assert len(runs(Places(settings.history))) == 1
    assert not notified(settings, broker)
    # in the middle of the transaction: sent, but not committed
    with monkeypatch.context() as patched:
        patched.setattr(Publisher, "_commit", die)
        patched.setattr(Publisher, "close", lambda self: None)
        backfill_dies(spark, settings)
    # after the transaction, before the outbox is emptied
    with monkeypatch.context() as patched:
        patched.setattr(backfill_module, "remove_runs", die)
        backfill_dies(spark, settings)
    expected = Counter({("low", "p0"): 1, ("low", "p1"): 1, ("high", "p3"): 1, ("high", "p4"): 1})
    assert notified(settings, broker) == expected
    last = backfill(spark, settings, quiet=True).facts
    assert (last["answered"], last["notifications"], last["waiting"]) == (0, 0, 1)
    assert runs(Places(settings.history)) == []
    assert notified(settings, broker) == expected
    messages = read_topic(settings, broker.bootstrap, f"{settings.topic_prefix}notifications")
    carried = [n for n in (decode_notification(m.value()) for m in messages) if n.earlier_ids]
    assert [(n.publication_id, n.earlier_ids, n.phase) for n in carried] == [("p3", ("p2", "p1", "p0"), "backfill")]


def test_an_ingest_that_dies_before_its_checkpoint_adds_nothing_twice(
    spark: Any, broker: embedded.Broker, history: MakeSettings
) -> None:
    settings = prepare(history, broker, "twice.")
    places = Places(settings.history)
    ask(settings, "early", {})  # nothing had been published, so there is nothing to wait for
    facts = backfill(spark, settings, quiet=True).facts
    assert (facts["answered"], facts["notifications"]) == (1, 0)
    assert ingest(spark, settings, quiet=True).facts["ingested"] == 0  # an empty topic
    with Client(settings=settings) as client:
        client.publish_many(Publication(f"p{n}") for n in range(9))
        aborted = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "aborted"})
        aborted.init_transactions()
        aborted.begin_transaction()
        aborted.produce("twice.publications", b'{"topic": "1"}', b"never committed")
        aborted.flush()
        aborted.abort_transaction()
    assert ingest(spark, settings, quiet=True).facts["ingested"] == 9
    last = max(Path(places.checkpoint, "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    last.unlink()
    Path(last.parent, f".{last.name}.crc").unlink(missing_ok=True)
    with Client(settings=settings) as client:
        client.publish_many([Publication("p9")])
    ingest(spark, settings, quiet=True)
    rows = read_publications(spark, places).select("partition", "offset", "publication_id").collect()
    assert sorted(row["publication_id"] for row in rows) == [f"p{n}" for n in range(10)]
    assert len({(row["partition"], row["offset"]) for row in rows}) == 10
    assert ingested(spark, places, "twice.publications") == {0: 12}  # one was aborted, and markers take offsets

    with Client(settings=settings) as client:
        client.publish_many(Publication(f"p{n}") for n in range(10, 13))
    admin = topics.connect(settings, broker.bootstrap)
    (deleted,) = admin.delete_records([TopicPartition("twice.publications", 0, 14)]).values()
    deleted.result()
    with pytest.raises(UserError, match="offsets 12 to 13 are no longer there"):
        ingest(spark, settings, quiet=True)
    assert ingest(spark, settings, allow_loss=True, quiet=True).facts["ingested"] == 1


def test_after_a_lost_checkpoint_every_publication_counts_once(
    spark: Any, broker: embedded.Broker, history: MakeSettings
) -> None:
    settings = prepare(history, broker, "lost.")
    places = Places(settings.history)
    with Client(settings=settings) as client:
        client.publish_many(Publication(f"p{n}", attributes={"x": n}) for n in range(5))
    assert ingest(spark, settings, quiet=True).facts["ingested"] == 5
    compact(spark, settings, vacuum_hours=None, quiet=True)  # notes that all of it has been looked at
    shutil.rmtree(places.checkpoint)
    assert ingest(spark, settings, quiet=True).facts["ingested"] == 5
    assert read_publications(spark, places).count() == 10
    ask(settings, "all", {0: 4})
    assert backfill(spark, settings, quiet=True).facts["notifications"] == 5
    assert notified(settings, broker) == {("all", f"p{n}"): 1 for n in range(5)}
    assert compact(spark, settings, vacuum_hours=None, quiet=True).facts["repeats_removed"] == 5
    rows = read_publications(spark, places).select("publication_id").collect()
    assert sorted(row[0] for row in rows) == [f"p{n}" for n in range(5)]
    ask(settings, "again", {0: 4}, "x >= 3")
    assert backfill(spark, settings, quiet=True).facts["notifications"] == 2


def test_an_answer_to_an_earlier_request_of_the_same_name_is_not_sent(
    spark: Any, broker: embedded.Broker, history: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been asked with another cut: its answer must neither be told nor close the request that is open now."""
    settings = prepare(history, broker, "older.")
    with Client(settings=settings) as client:
        client.publish_many(Publication(f"p{n}", attributes={"x": n}) for n in range(5))
    ingest(spark, settings, quiet=True)
    key = ask(settings, "s", {0: 4}, "x < 2")
    with monkeypatch.context() as patched:
        patched.setattr(Publisher, "publish", publish_or_die)
        backfill_dies(spark, settings)
    assert len(runs(Places(settings.history))) == 1
    assert ask(settings, "s", {0: 4}, "x >= 2") == key
    facts = backfill(spark, settings, quiet=True).facts
    assert (facts["answered"], facts["notifications"]) == (1, 3)
    assert notified(settings, broker) == {("s", f"p{n}"): 1 for n in range(2, 5)}


def test_the_outbox_answers_the_request_that_its_rows_were_made_for(
    broker: embedded.Broker, history: MakeSettings
) -> None:
    """Rows of an older or a newer request under the same key, of a version that was replaced, and the same answer twice."""
    settings = prepare(history, broker, "outbox.")
    places = Places(settings.history)
    ensure_outbox(places)
    keys = [ask(settings, "again", {0: 4}), ask(settings, "twice", {0: 4}), ask(settings, "again", {0: 9})]
    keys.append(ask(settings, "replaced", {0: 4}))
    newer = Version(FAR, 0, 8)
    keys.append(ask(settings, "replaced", {0: 4}, version=newer))  # the version is part of the key
    ask(settings, "waits", {0: 4})
    assert keys[0] == keys[2]
    assert keys[3] != keys[4]
    requests = read_requests(settings, broker.bootstrap, None)
    offset = requests.offsets
    versions = {each.request.subscription.subscription_id: Version(FAR, 0, 7) for each in requests.open}
    versions["replaced"] = newer
    answers = [
        ("1", keys[0], offset[keys[0]] - 2, "older"),
        ("1", keys[1], offset[keys[1]], "answer"),
        ("1", keys[3], offset[keys[3]], "of the version before"),
        ("2", keys[0], offset[keys[0]] + 1, "newer"),
        ("2", keys[1], offset[keys[1]], "answer again"),
        ("2", keys[2], offset[keys[2]], "its own"),
        ("2", keys[4], offset[keys[4]], "of the version in force"),
        ("2", b"closed before", 0, "closed"),
        ("3", keys[2], offset[keys[2]], "its own again"),
    ]
    rows = [
        {"run": run, "request": key, "request_offset": at, "closes": closes, "recipient": b"r", "value": value.encode()}
        for run, key, at, value in answers
        for closes in (False, True)
    ]
    deltalake.write_deltalake(places.outbox, pa.Table.from_pylist(rows, OUTBOX), mode="append")
    publisher = Publisher(settings, broker.bootstrap)
    sent = publisher.publish(places, runs(places), requests, versions)
    publisher.close()
    # a commit is answered before the markers of its transaction are in the log, and readers wait for these
    told: list[bytes | None] = []
    deadline = time.monotonic() + PATIENCE
    while not told and time.monotonic() < deadline:
        told = [message.value() for message in read_topic(settings, broker.bootstrap, "outbox.notifications")]
    assert told == [b"answer", b"its own", b"of the version in force"]
    assert (sent.requests, sent.notifications) == (4, 3)
    left = read_requests(settings, broker.bootstrap, None).open
    assert [each.request.subscription.subscription_id for each in left] == ["waits"]


def test_an_ended_subscription_is_answered_although_its_route_is_forgotten(
    spark: Any, broker: embedded.Broker, history: MakeSettings
) -> None:
    """Its own topic tells then whether it was withdrawn or replaced; what was refused, or sent again, has changed nothing."""
    settings = prepare(history, broker, "ended.")
    own = b'{"subscriber_id": "me", "starts_at": 0, "ends_at": 4000000000000000}'
    other = b'{"subscriber_id": "me", "starts_at": 0, "ends_at": 4000000000000001}'
    fates = {
        "stands": [own],
        "again": [own, b'{"subscriber_id": "me", "where": "x >"}', own],
        "withdrawn": [own, None],
        "replaced": [own, other],
        "long-gone": [],  # a tombstone goes as well, in the end
    }
    with Client(settings=settings) as client:
        client.publish_many(Publication(f"p{n}", attributes={"x": n}) for n in range(3))
        offset = 0
        for name, records in fates.items():
            client._send("ended.subscriptions", [(name, value) for value in records])
            ask(settings, name, {0: 2}, version=Version(FAR, 0, offset), ends_at=4_000_000_000_000_000)
            stand(settings, client, name, None)
            offset += len(records)
    ingest(spark, settings, quiet=True)
    facts = backfill(spark, settings, quiet=True).facts
    assert (facts["answered"], facts["over"]) == (2, 3)
    assert notified(settings, broker) == {(name, f"p{n}"): 1 for name in ("stands", "again") for n in range(3)}


def test_lost_offsets_are_named() -> None:
    check_loss("t", {0: 5}, {0: (5, 9), 1: (3, 4)})
    with pytest.raises(UserError, match="offsets 5 to 6"):
        check_loss("t", {0: 5}, {0: (7, 9)})
    with pytest.raises(UserError, match="made anew"):
        check_loss("t", {0: 5}, {0: (0, 2)})


@pytest.mark.parametrize("left", ["_staged_commits/", ".00000000000000000000.json.of-somebody.tmp"])
def test_a_table_whose_creation_was_killed_is_created(spark: Any, tmp_path: Path, left: str) -> None:
    places = Places(str(tmp_path))
    remains = Path(places.publications) / "_delta_log" / left
    if left.endswith("/"):
        remains.mkdir(parents=True)
    else:
        remains.parent.mkdir(parents=True)
        remains.write_text("{")
    ensure_publications(spark, places)
    assert read_publications(spark, places).count() == 0
