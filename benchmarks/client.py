"""The client: records a second, written and read, against a bare confluent-kafka client of the same bytes in the same run.

`python -m pastforward.benchmarks client`; `--records` sets how many. It needs a broker, and starts the embedded one if none is set.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable, Iterable
from math import inf

import click
import pyarrow as pa
from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from pastforward import broker, topics
from pastforward.client import Client
from pastforward.matching.conditions.values import Point
from pastforward.schemas import Content, Notification, Publication, encode
from pastforward.settings import Settings, load

ROUNDS = 3  # the best counts: a machine has other things to do as well
SINGLE = 500  # subscriptions that are sent one by one


def dictionaries(count: int) -> list[dict[str, object]]:
    return [
        {
            "topic": f"1.{n % 4}.{n % 40}",
            "attributes": {"kind": "accident", "severity": n % 10, "speed": n * 0.5, "road": f"I-{n % 100}"},
        }
        for n in range(count)
    ]


def _rate(count: int, run: Callable[[], object]) -> tuple[float, float]:
    """A second, and microseconds of this process for each: the second stays the same when a machine has other things to do."""
    best, least = 0.0, inf
    for _ in range(ROUNDS):
        started, used = time.perf_counter(), time.process_time()
        run()
        best = max(best, count / (time.perf_counter() - started))
        least = min(least, (time.process_time() - used) / count * 1e6)
    return best, least


def _bare(bootstrap: str, topic: str) -> Producer:
    """Connected, as the client is by then."""
    settings = {"enable.idempotence": True, "linger.ms": 2, "compression.type": "lz4", "partitioner": "murmur2_random"}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    producer.produce(topic, b"{}", "first")
    producer.flush()
    return producer


def _produce(producer: Producer, topic: str, values: Iterable[bytes]) -> None:
    for number, value in enumerate(values):
        while True:
            try:
                producer.produce(topic, value, str(number))
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def _one_by_one(client: Client) -> float:
    """Milliseconds, in the median."""
    taken = []
    for number in range(SINGLE):
        started = time.perf_counter()
        client.subscribe("severity >= 3", subscriber_id="anna", subscription_id=f"single-{number}")
        taken.append(time.perf_counter() - started)
    return sorted(taken)[SINGLE // 2] * 1000


def measure(settings: Settings, bootstrap: str, count: int) -> list[tuple[str, str, str]]:
    names = topics.Topics(settings.topic_prefix)
    topics.ensure(settings, topics.connect(settings, bootstrap))
    with Client(bootstrap, settings=settings) as client:
        many = dictionaries(count)
        plain, plain_us = _rate(count, lambda: client.publish_many(many))
        values = [value for value in map(client._plain.write, many) if value is not None]
        producer = _bare(bootstrap, names.publications)
        bare, bare_us = _rate(count, lambda: _produce(producer, names.publications, values))
        table = pa.Table.from_pylist([{"_topic": each["topic"], **each["attributes"]} for each in many])  # type: ignore[dict-item]
        arrow, arrow_us = _rate(count, lambda: client.publish_many(table))
        positions = [{"at": Point(8 + n % 100 / 100, 47.4), "attributes": {"n": n}} for n in range(count)]
        placed, placed_us = _rate(count, lambda: client.publish_many(positions))
        few = max(1, count // 10)
        records, records_us = _rate(few, lambda: client.publish_many(Publication(**each) for each in many[:few]))  # type: ignore[arg-type]
        asked = [
            {"subscriber_id": f"s{n % 100}", "where": f"severity >= {n}", "topic": f"1.{n % 4}"} for n in range(count)
        ]
        subscribed, subscribed_us = _rate(count, lambda: client.subscribe_many(asked))
        single = _one_by_one(client)
        content = Content(many[1]["attributes"], expires_at=1_900_000_000_000_000)  # type: ignore[arg-type]
        told = Notification(
            uuid.uuid4().hex, "s", "0-1", "p", "anna", "subscriber", "1.4", 1, 1, "live", content=content
        )
        begin = client.notifications("anna").token
        client._send(names.notifications, (("anna", encode(told)) for _ in range(count)))
        read, read_us = _rate(count, lambda: _read(client, begin, count))
        listed = len(client.subscriptions())
        listing, listing_us = _rate(listed, client.subscriptions)
    return [
        (
            "publish_many, dictionaries",
            _shown(plain, plain_us),
            f"{plain / bare:.0%} of a bare producer of the same bytes",
        ),
        ("a bare producer", _shown(bare, bare_us), ""),
        ("publish_many, Arrow table", _shown(arrow, arrow_us), f"{arrow / bare:.0%} of a bare producer"),
        ("publish_many, dictionaries with a place", _shown(placed, placed_us), ""),
        ("publish_many, Publication", _shown(records, records_us), ""),
        ("subscribe_many", _shown(subscribed, subscribed_us), ""),
        ("subscribe", f"{single:.2f} ms in the median", ""),
        ("reading notifications and their content", _shown(read, read_us), ""),
        ("listing subscriptions", _shown(listing, listing_us), ""),
    ]


def _shown(rate: float, used: float) -> str:
    return f"{rate:,.0f}/s, {used:.1f} us each"


def _read(client: Client, begin: str, count: int) -> None:
    with client.notifications("anna", after=begin, timeout=30) as stream:
        for _ in range(count):
            content = next(stream).content
            assert content is not None
            assert content.attributes


@click.command()
@click.option("--records", type=click.IntRange(1000), default=50_000, show_default=True)
def main(records: int) -> None:
    """Measure the client."""
    prefix = f"bench-{uuid.uuid4().hex[:8]}."
    with tempfile.TemporaryDirectory(prefix="pastforward-") as directory:
        settings = load({"topic_prefix": prefix, "data_dir": directory})
        running = None if settings.bootstrap_servers else broker.start(settings)
        try:
            rows = measure(settings, settings.bootstrap_servers or running.bootstrap, records)  # type: ignore[union-attr]
        finally:
            if running is not None:
                running.stop()
    table = Table("client", "", "")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    main()
