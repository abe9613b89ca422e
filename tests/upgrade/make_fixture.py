"""Records what this version writes, for tests that a later version can read it.

    python -m tests.upgrade.make_fixture tests/upgrade/fixtures/0.1

Runs an embedded broker, a worker and the history jobs on a small load that has every kind of record, and stores:

- `records.jsonl.gz`: every committed record of every topic, one JSON object a line: topic, partition, offset, timestamp (ms), key,
  value and headers, bytes as base64
- `topics.json`: partitions and changed configuration of every topic, and the committed offsets of every group with their metadata
- `expected.json`: settings of the system, and what the load must have led to
- `worker.tar.gz`: the data directory of the worker, closed in order, up to the committed offsets
- `broker.tar.gz`: `DATA_DIR/broker` after an orderly stop, for the embedded broker to start from. The topics keep records for seven days:
  raise `retention.ms` of all of them, and `offsets.retention.minutes`, before the broker looks (30 s after its start)
- `history.tar.gz`: the tables and the checkpoint of the history
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import io
import json
import random
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from pastforward import broker as embedded
from pastforward.columns.vocabulary import SYMBOLS
from pastforward.matching.conditions.values import Box, Circle, Point
from pastforward.matching.conditions.values import Path as DeweyPath
from pastforward.schemas import (
    Best,
    Predicate,
    Publication,
    Subscription,
    decode_dead_letter,
    decode_notification,
    encode,
)
from pastforward.settings import Settings, load
from pastforward.topics import TO_THE_END, arrived, watermarks
from tests.outside import PATIENCE, WorkerUnderTest

ROOT: Final = Path(__file__).resolve().parents[2]
PREFIX: Final = "upgrade."
GROUP: Final = f"{PREFIX}worker"
SETTINGS: Final = {"topic_prefix": PREFIX, "partitions": "2", "hot_window": "10m", "routing_depth": "1"}
MINUTE: Final = 60_000_000
DAY: Final = 24 * 60 * MINUTE


class Load:
    """Sends records, and waits until the worker has taken all of them."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.now = time.time_ns() // 1000
        self.sent: Counter[str] = Counter()
        self.producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "partitioner": "murmur2_random"}
        )

    def send(self, topic: str, key: str | bytes | None, value: Any, **more: Any) -> None:
        if not (value is None or isinstance(value, bytes)):
            value = json.dumps(value).encode()
        self.sent[topic] += 1
        self.producer.produce(PREFIX + topic, value, key, **more)

    def publish(self, record: Publication, format: Any = "avro") -> None:
        self.send("publications", record.publication_id, encode(record, format))

    def subscribe(self, record: Subscription, format: Any = "avro") -> None:
        self.send("subscriptions", record.subscription_id, encode(record, format))

    def settle(self) -> None:
        """Until everything sent so far is routed and matched."""
        assert self.producer.flush(PATIENCE) == 0
        reader = consumer(self.bootstrap)
        deadline = time.monotonic() + PATIENCE
        for name in ("subscriptions", "publications", "rendezvous"):
            ends = {p: end for p, (_, end) in watermarks(reader, PREFIX + name).items()}
            while any(committed(self.bootstrap).get((PREFIX + name, p), (0, ""))[0] < end for p, end in ends.items()):
                assert time.monotonic() < deadline, f"{name}: {ends}, committed {committed(self.bootstrap)}"
                time.sleep(0.05)
        reader.close()


def consumer(bootstrap: str) -> Any:
    return Consumer({"bootstrap.servers": bootstrap, "group.id": "make-fixture", **TO_THE_END})


def committed(bootstrap: str, group: str = GROUP) -> dict[tuple[str, int], tuple[int, str]]:
    """By aiokafka: confluent-kafka reads the metadata beyond its end."""

    async def ask() -> dict[Any, Any]:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            found: dict[Any, Any] = await admin.list_consumer_group_offsets(group)
            return found
        finally:
            await admin.close()

    return {tuple(place): (at.offset, at.metadata) for place, at in asyncio.run(ask()).items()}


# ---------------------------------------------------------------------------------------------------------------- the load


def first_half(load: Load) -> None:
    """Subscriptions of every kind, then publications: live matches."""
    now = load.now
    for number, semantics in enumerate(("classical", "symmetric", "intersect")):
        for scope in ("overlap", "subtree"):
            record = Subscription(
                f"{semantics}-{scope}", f"subscriber-{number}", "1.2", scope, now - 5 * MINUTE, None,  # type: ignore[arg-type]
                "published", "x BETWEEN 2 AND 8 AND kind LIKE 'a%'", semantics,  # type: ignore[arg-type]
            )  # fmt: skip
            load.subscribe(record, "json" if number % 2 else "avro")
    load.subscribe(Subscription("valid", "anna", "1", "overlap", now - MINUTE, now + DAY, "valid"))
    load.subscribe(
        Subscription("ends", "anna", "1", "overlap", now - MINUTE, now + 60 * MINUTE, where="x > 3 OR x IS NULL")
    )
    load.subscribe(Subscription("root", "ben", where="NOT (x = 1) AND kind IN ('a', 'ab', 'ü')"))
    load.subscribe(Subscription("joined-1", "carl", "1.2", where="x >= 1", self_join=True))
    load.subscribe(Subscription("joined-2", "carl", "1", where="previous.x < 5", self_join=True))
    for number, (where, topic) in enumerate(
        [
            ("flag AND big > 9007199254740993", "3"),
            ("ratio BETWEEN 0.25 AND 1e300 AND \"when\" < TIMESTAMP '2031-01-01T00:00:00Z'", "3"),
            ("WITHIN(place, BOX(0, 0, 20, 60)) AND OVERLAPS(area, POINT(13.4, 52.5))", "3.1"),
            ("text MATCHES '^b.*n$' AND within(path, PATH '1.4')", "3.1"),
        ]
    ):
        load.send("subscriptions", f"typed-{number}", {"subscriber_id": "dora", "topic": topic, "where": where})
    for number, operator in enumerate(SYMBOLS.values()):
        load.subscribe(Subscription(f"operator-{number}", "emil", "4", where=((predicate(operator),),)))
    load.subscribe(Subscription("replaced", "anna", "1", where="x = 1"))
    load.subscribe(Subscription("withdrawn", "anna", "2"))
    load.settle()
    load.subscribe(Subscription("replaced", "anna", "2.2", where="x = 2"), "json")  # leads to another partition
    load.subscribe(Subscription("valid", "anna", "1", "overlap", now - MINUTE, now + DAY, "valid"))  # unchanged
    load.send("subscriptions", "withdrawn", None)
    load.send("subscriptions", "never-there", None)
    load.settle()
    publications(load, "live")


def predicate(operator: str) -> Predicate:
    match operator.removeprefix("not "):
        case "between":
            return Predicate("x", operator, 2, 7)
        case "in":
            return Predicate("kind", operator, values=("a", "b"))
        case "prefix" | "suffix" | "substring" | "like" | "matches":
            return Predicate("kind", operator, "a")
        case "overlaps" | "contains" | "within":
            return Predicate("place", operator, Box(0.0, 0.0, 20.0, 60.0))
        case "is null" | "is not null":
            return Predicate("x", operator)
    return Predicate("x", operator, 5)


def publications(load: Load, name: str) -> None:
    now, rng = load.now, random.Random(name)
    every: dict[str, Any] = {
        "flag": True, "big": 2**62, "ratio": 0.5, "when": datetime.fromtimestamp(now // 1_000_000, UTC), "text": "berlin",
        "place": Point(13.4, 52.5),
        "area": Circle(13.4, 52.5, 1000.0), "region": Box(13.0, 52.0, 14.0, 53.0), "path": DeweyPath("1.4.2"), "x": 4, "kind": "a",
    }  # fmt: skip
    for number, format in enumerate(("avro", "json")):
        load.publish(
            Publication(f"{name}-every-{number}", "house", "3.1", attributes=every, body=b"\x00\xffbody"), format
        )
    for number in range(24):
        load.publish(
            Publication(
                f"{name}-{number}",
                "house" if number % 5 == 0 else None,
                rng.choice(["1.2", "1", "1.2.3", "2.2", "4", "4.4", ""]),
                None if number % 3 else now - rng.randrange(8 * MINUTE),
                now + DAY if number % 4 == 0 else None,
                {"kind": rng.choice(["a", "ab", "b", "ü"]), **({"x": rng.randint(0, 9)} if number % 6 else {})},
                None if number % 7 else "x BETWEEN 2 AND 4 OR y > 1",
                None,
                number % 8 == 0,
                b"b" if number % 9 == 0 else None,
            ),
            "json" if number % 2 else "avro",
        )
    load.publish(Publication(f"{name}-1", topic="1.2", attributes={"kind": "a", "x": 5}))  # an id that came before
    load.send("publications", None, {"topic": "1.2", "attributes": {"kind": "a", "x": 3}})  # without any id
    load.send("publications", f"{name}-headers", {"topic": "1.2"}, headers=[("trace", b"1"), ("none", None)])
    load.publish(
        Publication(f"{name}-short", topic="1.2", expires_at=now + 2_000_000, attributes={"kind": "a", "x": 6})
    )
    load.publish(
        Publication(f"{name}-structured", topic="1.2", where=((Predicate("x", ">", 3), Predicate("kind", "=", "a")),))
    )
    load.settle()


def auctions(load: Load) -> None:
    """One that is open, with a holder who outbid another; one that is over; one that nobody holds."""
    now, best = load.now, Best("price", "highest")
    load.subscribe(Subscription("bid-1", "anna", "5.1", where="lot = 'painting' AND price <= 120"))
    load.settle()
    lot: dict[str, Any] = {"lot": "painting"}
    load.publish(Publication("open", "house", "5.1", None, now + 30 * DAY, lot, "price >= 100", best))
    load.publish(
        Publication(
            "over",
            "house",
            "5.1",
            None,
            time.time_ns() // 1000 + 1_000_000,
            lot,
            "price >= 100",
            Best("price", "lowest"),
        )
    )
    load.publish(Publication("nobody", None, "5.2", attributes={"lot": "vase"}, where="price >= 5", best=best))
    load.settle()
    time.sleep(1)  # log time passes the expiry of `over` with the next record
    load.subscribe(Subscription("bid-2", "ben", "5.1", starts_at=0, where="lot = 'painting' AND price < 150.5"))
    load.settle()


def second_half(load: Load) -> None:
    """What reaches back: within the hot window, and beyond it, which asks the history."""
    now = load.now
    for number in range(6):
        old: dict[str, Any] = {"kind": "a", "x": number}
        load.publish(Publication(f"cold-{number}", "house", "1.2", now - DAY + number, attributes=old))
    load.settle()
    load.subscribe(Subscription("past", "frida", "1.2", starts_at=now - 9 * MINUTE, where="x >= 2"))
    load.subscribe(Subscription("cold", "frida", "1", starts_at=now - 2 * DAY, where="x >= 3"))
    load.subscribe(Subscription("cold-root", "gina", starts_at=now - 2 * DAY, ends_at=now - DAY + 3))
    load.subscribe(
        Subscription("cold-joined", "frida", "1.2", starts_at=now - 2 * DAY, where="x IN (2, 3)", self_join=True)
    )
    load.settle()


def bad_records(load: Load) -> None:
    for number, (topic, value) in enumerate(
        [
            ("publications", b"\xc3\x01 nothing"),
            ("publications", b'{"topic": "1..2"}'),
            ("publications", None),
            ("publications", b'{"publication_id": "another"}'),
            ("publications", b'{"attributes": {"previous.x": 1}}'),
            ("publications", b'{"best": {"attribute": "x", "prefer": "highest"}}'),
            ("subscriptions", b'{"subscriber_id": "s", "where": "x >"}'),
            ("subscriptions", b'{"subscriber_id": "s", "starts_at": 5, "ends_at": 4}'),
            ("subscriptions", b'{"subscriber_id": "s", "colour": 4}'),
            ("subscriptions", b"{}"),
        ]
    ):
        load.send(topic, f"bad-{number}", value)
    load.settle()


# ---------------------------------------------------------------------------------------------------------------- the files


def dump_records(bootstrap: str, names: list[str]) -> Iterator[dict[str, Any]]:
    reader = consumer(bootstrap)
    for name in names:
        places = {p: first for p, (first, end) in watermarks(reader, name).items() if first < end}
        reader.assign([TopicPartition(name, p, first) for p, first in places.items()])
        while places:
            for message in arrived(reader, 1000, 1.0):
                if message.error():
                    places.pop(message.partition(), None)
                    continue
                yield {
                    "topic": name, "partition": message.partition(), "offset": message.offset(),
                    "timestamp": message.timestamp()[1], "key": text(message.key()), "value": text(message.value()),
                    "headers": [[header, text(value)] for header, value in message.headers() or []],
                }  # fmt: skip
    reader.close()


def text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def describe(bootstrap: str) -> dict[str, Any]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    known = admin.list_topics(timeout=PATIENCE).topics
    names = sorted(name for name in known if name.startswith(PREFIX))
    configs = {
        resource.name: {name: entry.value for name, entry in sorted(future.result().items()) if not entry.is_default}
        for resource, future in admin.describe_configs([ConfigResource(ResourceType.TOPIC, n) for n in names]).items()
    }
    groups = [group.group_id for group in admin.list_consumer_groups().result().valid]
    return {
        "topics": {name: {"partitions": len(known[name].partitions), "config": configs[name]} for name in names},
        "groups": {
            group: [[*place, *at] for place, at in sorted(committed(bootstrap, group).items())]
            for group in sorted(groups)
            if group.startswith(PREFIX)
        },
    }


def pack(folder: Path, target: Path, skip: Callable[[str], bool] = lambda name: False) -> None:
    """Without owners, and with one time for all: nothing of the machine it was made on."""

    def plain(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
        info.uid = info.gid = info.mtime = 0
        info.uname = info.gname = ""
        return None if skip(info.name.rpartition("/")[2]) else info

    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        archive.add(folder, folder.name, filter=plain)
    target.write_bytes(gzip.compress(held.getvalue(), 9, mtime=0))


def make(target: Path, scratch: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    base = load({"data_dir": scratch, "jars_dir": ROOT / ".jars"}, environment={})
    running = embedded.start(base)
    try:
        settings = load(
            {"data_dir": scratch, "jars_dir": ROOT / ".jars", "history": scratch / "history",
             "bootstrap_servers": running.bootstrap, **SETTINGS}, environment={},
        )  # fmt: skip
        run(settings, running.bootstrap, scratch, target)
    finally:
        running.stop()
    own = ("worker.log", "lock", "LOG", "broker.log", "start.lock", "port", "server.properties")
    pack(scratch / "worker", target / "worker.tar.gz", lambda name: name in own or name.startswith("LOG.old"))
    pack(scratch / "broker", target / "broker.tar.gz", lambda name: name in own)
    pack(scratch / "history", target / "history.tar.gz")
    sizes = {path.name: path.stat().st_size for path in sorted(target.iterdir())}
    print(json.dumps({**sizes, "total": sum(sizes.values())}, indent=1))


def run(settings: Settings, bootstrap: str, scratch: Path, target: Path) -> None:
    from pastforward.spark_batch.backfill import backfill
    from pastforward.spark_batch.ingest import ingest
    from pastforward.spark_batch.session import make_session

    (scratch / "worker").mkdir()
    flags = {**SETTINGS, "data_dir": str(scratch / "worker")}
    worker = WorkerUnderTest(bootstrap, flags)
    try:
        worker.wait_ready()
        source = Load(bootstrap)
        first_half(source)
        auctions(source)
        assert worker.stop() == 0, worker.fate()
        worker = WorkerUnderTest(bootstrap, {**flags, "notification_format": "json"})
        worker.wait_ready()
        second_half(source)
        spark = make_session(settings, 2)
        facts = ingest(spark, settings, quiet=True).facts
        answered = backfill(spark, settings, quiet=True).facts
        spark.stop()
        # after the ingest: the history has to catch up, and requests are open
        bad_records(source)
        publications(source, "later")
        source.subscribe(Subscription("waiting", "hugo", "1.2", starts_at=source.now - 2 * DAY))
        source.settle()
        assert worker.stop() == 0, worker.fate()
    finally:
        worker.kill()
    described = describe(bootstrap)
    records = list(dump_records(bootstrap, list(described["topics"])))
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (target / "records.jsonl.gz").write_bytes(gzip.compress(lines.encode(), 9, mtime=0))
    (target / "topics.json").write_text(json.dumps(described, indent=1) + "\n")
    expected = {
        "settings": SETTINGS,
        "sent": dict(source.sent),
        "records": dict(sorted(Counter(record["topic"] for record in records).items())),
        "phases": counted(records, "notifications", lambda value: decode_notification(value).phase),
        "dead_letters": counted(records, "dead-letters", lambda value: decode_dead_letter(value).kind),
        "ingested": facts["ingested"],
        "answered": answered["answered"],
    }
    assert expected["phases"].keys() == {"past", "live", "backfill", "best"}, expected
    (target / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def counted(records: list[dict[str, Any]], name: str, kind: Callable[[bytes], str]) -> dict[str, int]:
    values = [base64.b64decode(record["value"]) for record in records if record["topic"] == PREFIX + name]
    return dict(sorted(Counter(map(kind, values)).items()))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        make(Path(sys.argv[1]), Path(folder))
