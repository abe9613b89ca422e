"""The client: records a second, written and read, against a bare confluent-kafka client of the same bytes in the same run.

`python -m pastforward.benchmarks client`; `--records` sets how many. It needs a broker, and starts the embedded one if none is set.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable, Iterable

import click
from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from pastforward import broker, topics
from pastforward.client import Client
from pastforward.schemas import Notification, Publication, encode
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


def _rate(count: int, run: Callable[[], object]) -> float:
    best = 0.0
    for _ in range(ROUNDS):
        started = time.perf_counter()
        run()
        best = max(best, count / (time.perf_counter() - started))
    return best


def _bare(bootstrap: str, topic: str, values: Iterable[bytes]) -> None:
    settings = {"enable.idempotence": True, "linger.ms": 2, "compression.type": "lz4", "partitioner": "murmur2_random"}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
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


def measure(settings: Settings, bootstrap: str, count: int) -> list[tuple[str, str]]:
    names = topics.Topics(settings.topic_prefix)
    topics.ensure(settings, topics.connect(settings, bootstrap))
    with Client(bootstrap, settings=settings) as client:
        many = dictionaries(count)
        plain = _rate(count, lambda: client.publish_many(many))
        values = [value for value in map(client._plain.write, many) if value is not None]
        bare = _rate(count, lambda: _bare(bootstrap, names.publications, values))
        few = max(1, count // 10)
        records = _rate(few, lambda: client.publish_many(Publication(**each) for each in many[:few]))  # type: ignore[arg-type]
        asked = [
            {"subscriber_id": f"s{n % 100}", "where": f"severity >= {n}", "topic": f"1.{n % 4}"} for n in range(count)
        ]
        subscribed = _rate(count, lambda: client.subscribe_many(asked))
        single = _one_by_one(client)
        told = Notification(uuid.uuid4().hex, "s", "0-1", "p", "anna", "subscriber", "1.4", 1, 1, "live")
        value = encode(told)
        stream = client.notifications("anna", timeout=30)
        client._send(names.notifications, (("anna", value) for _ in range(count)))
        started = time.perf_counter()
        for _ in range(count):
            next(stream)
        read = count / (time.perf_counter() - started)
        started = time.perf_counter()
        listed = len(client.subscriptions())
        listing = listed / (time.perf_counter() - started)
    return [
        ("publish_many, dictionaries", f"{plain:,.0f}/s, {plain / bare:.0%} of a bare producer of the same bytes"),
        ("publish_many, Publication", f"{records:,.0f}/s"),
        ("subscribe_many", f"{subscribed:,.0f}/s"),
        ("subscribe", f"{single:.2f} ms in the median"),
        ("reading notifications", f"{read:,.0f}/s"),
        ("listing subscriptions", f"{listing:,.0f}/s"),
    ]


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
    table = Table("client", "")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    main()
