"""The routing schemes on a real broker, and a change of the routing under traffic: `pastforward bench rendezvous`.

Schemes: 16 partitions, the same subscriptions and publications for each scheme, one worker. The conditions are Lo and Chiu's in small:
an equality and ranges over ten attributes, some of them common. A change: 100,000 live subscriptions and 5,000 publications a second,
`dewey` to another number of partitions, then to `iim`; each notification is timed from `produce` to a read-committed consumer, and every
pair is held against the pairs of the loads, computed here.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition
from rich.console import Console
from rich.table import Table

from pastforward.benchmarks.generators.stream import SEVERITIES, Interest, Record, interests, samples, subscriptions
from pastforward.benchmarks.options import Share, environment
from pastforward.benchmarks.routing_decision import ATTRIBUTES, catalog_text
from pastforward.benchmarks.stream import Bench, Worker, console
from pastforward.schemas import Publication, Subscription, decode_notification, decode_rendezvous_chunk, encode
from pastforward.schemas.columns import FROM_PUBLICATIONS, FROM_SUBSCRIPTIONS
from pastforward.settings import Settings
from pastforward.topics import TO_THE_END, Topics

PARTITIONS: Final = 16
SCHEMES: Final = ("dewey", "ferry", "pan", "pav", "hybrid", "iim", "constraints")
RATE: Final = 5_000  # publications a second during a change
STILL: Final = 1.5  # seconds without a lag: nothing is on its way any more
LATEST: Final = 5.0  # seconds after which a notification is late
SAMPLES: Final = 20_000  # different publications during a change
STREAM_CATALOG: Final = """
[[attribute]]
name = "kind"
type = "string"
kind = "equality"

[[attribute]]
name = "severity"
type = "integer"
kind = "range"
domain = [0, 1100]
intervals = 12
"""


class Cost(NamedTuple):
    """What a scheme cost. Spread: the standard deviation of the subscriptions of a partition, of their mean."""

    scheme: str
    subscription_copies: float
    publication_copies: float
    spread: float
    publications_a_second: float
    notifications_a_second: float
    notifications: int


# ------------------------------------------------------------------------------------------------------------ by scheme


def conditions(count: int) -> Iterator[Record]:
    """Equality on one of the texts, ranges of a tenth on two of the numbers."""
    draw = random.Random(1)
    for number in range(count):
        text = draw.randrange(1, ATTRIBUTES, 2)
        terms = [f"a{text} = 'value {draw.randrange(20)}'"]
        for each in draw.sample(range(0, ATTRIBUTES, 2), 2):
            low = draw.randrange(900)
            terms.append(f"a{each} BETWEEN {low} AND {low + 100}")
        record = Subscription(f"s{number}", f"u{number % 1000}", str(draw.randint(1, 64)), where=" AND ".join(terms))
        yield Record("subscriptions", record.subscription_id.encode(), encode(record))


def contents(count: int) -> Iterator[Record]:
    draw = random.Random(2)
    for number in range(count):
        said: dict[str, Any] = {
            f"a{each}": f"value {draw.randrange(20)}" if each % 2 else draw.randrange(1000)
            for each in range(ATTRIBUTES)
        }
        record = Publication(None, None, str(draw.randint(1, 64)), attributes=said)
        yield Record("publications", b"p%d" % number, encode(record))


def run_scheme(bench: Bench, scheme: str, catalog: Path) -> Cost:
    taken, published = bench.count(20_000), bench.count(100_000)
    settings = bench.system(scheme, PARTITIONS)
    bench.fill(settings, conditions(taken), taken, f"{taken:,} subscriptions, {scheme}")
    flags = {"routing": scheme, "partitions": str(PARTITIONS), "hot-window": "10s", "catalog": str(catalog)}
    worker = bench.worker(settings, **flags)
    names = Topics(settings.topic_prefix)
    try:
        worker.wait_ready()
        bench.consumed(worker, {names.subscriptions: taken}, f"taking subscriptions, {scheme}")
        _seconds_until_matched(worker, names.rendezvous)
    finally:
        worker.stop()
    # while no worker runs: what it took meanwhile would not be in its time
    bench.fill(settings, contents(published), published, f"{published:,} publications, {scheme}")
    worker = bench.worker(settings, **flags)
    try:
        worker.wait_ready()
        began = time.perf_counter()
        bench.consumed(worker, {names.publications: published}, f"publications, {scheme}")
        took = _seconds_until_matched(worker, names.rendezvous) - began
        notified = int(worker.counter("notifications"))
    finally:
        worker.stop()
    kept, copies = _counted(bench, settings)
    spread = float(np.std(kept) / np.mean(kept))
    return Cost(scheme, sum(kept) / taken, copies / published, spread, published / took, notified / took, notified)


def _seconds_until_matched(worker: Worker, topic: str) -> float:
    """Until the matcher has done all that is in the rendezvous log: when that was. Ticks, one a second and partition, do not count."""
    since = None
    while since is None or time.perf_counter() < since + STILL:
        worker.check()
        now = time.perf_counter()
        if worker.lag(topic) > PARTITIONS:
            since = None
        elif since is None:
            since = now
        time.sleep(0.05)
    return since


def _counted(bench: Bench, settings: Settings) -> tuple[list[int], int]:
    """Subscriptions by partition, and copies of publications, as the rendezvous log has them."""
    kept, copies = [0] * PARTITIONS, 0
    for partition, values in read(bench.broker.bootstrap, Topics(settings.topic_prefix).rendezvous, PARTITIONS):
        origin = decode_rendezvous_chunk(values).origin
        kept[partition] += int(np.count_nonzero(origin == FROM_SUBSCRIPTIONS))
        copies += int(np.count_nonzero(origin == FROM_PUBLICATIONS))
    return kept, copies


def read(bootstrap: str, topic: str, partitions: int) -> Iterator[tuple[int, list[bytes]]]:
    """Values in pieces, with their partition, up to the end of each."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            **TO_THE_END,
        }
    )
    reader.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    ended: set[int] = set()
    while len(ended) < partitions:
        by: dict[int, list[bytes]] = {}
        for message in reader.consume(20_000, 0.2):
            if message.error():
                ended.add(message.partition())
            else:
                by.setdefault(message.partition(), []).append(message.value())
        yield from by.items()
    reader.close()


# ------------------------------------------------------------------------------------------------------------ a change


class Received(NamedTuple):
    """One notification: its pair, and when it came after its publication, in seconds."""

    subscription: str
    publication: str
    wait: float
    at: float


class Listener(threading.Thread):
    """Reads notifications as they come, read committed."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__()
        self.received: list[Received] = []
        self.done = threading.Event()
        self._reader = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "bench",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
            }
        )
        self._reader.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self.start()

    def run(self) -> None:
        while not self.done.is_set():
            message = self._reader.poll(0.1)
            if message is not None and message.error() is None:
                now = time.time()
                said = decode_notification(message.value())
                self.received.append(
                    Received(said.subscription_id, said.publication_id, now - said.published_at / 1e6, now)
                )
        self._reader.close()


class Traffic(threading.Thread):
    """Publications at a rate, until told to stop."""

    def __init__(self, bootstrap: str, topic: str, rate: int) -> None:
        super().__init__()
        self.sent = 0
        self.done = threading.Event()
        self._topic, self._rate = topic, rate
        self._samples = samples(SAMPLES)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "linger.ms": 5,
            }
        )
        self.start()

    def run(self) -> None:
        start = time.perf_counter()
        while not self.done.is_set():
            ahead = start + self.sent / self._rate - time.perf_counter()
            if ahead > 0.002:
                time.sleep(ahead)
            topic, said = self._samples[self.sent % len(self._samples)]
            record = Publication(None, None, topic, time.time_ns() // 1000, attributes=said)
            self._producer.produce(self._topic, encode(record), b"p%d" % self.sent)
            self._producer.poll(0)
            self.sent += 1
        self._producer.flush()


def matches(count: int) -> list[list[str]]:
    """For each sample of a publication the subscriptions that it satisfies: a plain loop over those of its topic."""
    by_topic: dict[str, list[Interest]] = {}
    for each in interests(count):
        by_topic.setdefault(each.topic, []).append(each)
    return [
        [
            f"s{each.number}"
            for each in by_topic.get(topic.rpartition(".")[0], ())
            if each.kind == said["kind"]
            and each.severity <= said["severity"] <= each.severity + SEVERITIES // 5
            and each.speed <= said["speed"] < each.speed + 13
        ]
        for topic, said in samples(SAMPLES)
    ]


class Change(NamedTuple):
    """What was seen of a change under traffic: waits in seconds, before it and from its begin to its end."""

    what: str
    took: float
    before: float
    median: float
    longest: float
    notifications: int
    lost: int
    twice: int


def run_change(bench: Bench, catalog: Path) -> list[Change]:
    held = bench.count(100_000)
    settings = bench.system("change")
    names = Topics(settings.topic_prefix)
    bench.fill(settings, subscriptions(held), held, f"{held:,} subscriptions")
    worker = bench.worker(settings, **{"hot-window": "10s"})
    worker.wait_ready()
    bench.consumed(worker, {names.subscriptions: held}, "taking the subscriptions")
    _seconds_until_matched(worker, names.rendezvous)
    listener = Listener(bench.broker.bootstrap, names.notifications, settings.partitions)
    traffic = Traffic(bench.broker.bootstrap, names.publications, bench.count(RATE))
    moments: list[tuple[str, float, float]] = []
    try:
        time.sleep(15)
        for what, options in (
            ("4 to 6 partitions", ("--partitions", "6")),
            ("dewey to iim", ("--scheme", "iim", "--catalog", str(catalog))),
        ):
            worker.check()
            with console.status(f"{what}, {bench.count(RATE):,} publications a second"):
                began = time.time()
                _apply(settings, bench.broker.bootstrap, options)
                moments.append((what, began, time.time()))
                time.sleep(10)
        traffic.done.set()
        traffic.join()
        with console.status("the last notifications"):
            quiet = -1
            while len(listener.received) != quiet:
                quiet = len(listener.received)
                time.sleep(3)
    finally:
        traffic.done.set()
        listener.done.set()
        listener.join()
        worker.stop()
    return _seen(listener.received, moments, traffic.sent, matches(held))


def _apply(settings: Settings, bootstrap: str, options: tuple[str, ...]) -> None:
    connection = ("--bootstrap-servers", bootstrap, "--topic-prefix", settings.topic_prefix, "--hot-window", "10s")
    command = [sys.executable, "-P", "-m", "pastforward", "routing", "apply", "--json", *connection, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    if done.returncode:
        raise click.ClickException(done.stderr)


def _seen(
    received: list[Received], moments: list[tuple[str, float, float]], sent: int, matching: list[list[str]]
) -> list[Change]:
    """The pairs are those of the whole run: what is lost or comes twice stands in each line."""
    found = Counter((each.subscription, each.publication) for each in received)
    wanted = Counter((name, f"p{number}") for number in range(sent) for name in matching[number % SAMPLES])
    lost, twice = (wanted - found).total(), (found - wanted).total()
    still = [each.wait for each in received if moments[0][1] - 5 <= each.at < moments[0][1]]
    seen = []
    for what, began, ended in moments:
        waits = [each.wait for each in received if began <= each.at and each.at - each.wait <= ended]
        median, longest = float(np.median(waits)), max(waits)
        seen.append(Change(what, ended - began, float(np.median(still)), median, longest, len(waits), lost, twice))
    return seen


# ------------------------------------------------------------------------------------------------------------ command


def show(costs: list[Cost], changes: list[Change]) -> None:
    if costs:
        shown = Table(title="Schemes on the broker, 16 partitions")
        for column in (
            "scheme",
            "copies of a subscription",
            "of a publication",
            "spread",
            "publications/s",
            "notified/s",
        ):
            shown.add_column(column, justify="left" if column == "scheme" else "right")
        for cost in costs:
            numbers = (f"{x:.2f}" for x in (cost.subscription_copies, cost.publication_copies, cost.spread))
            rates = (f"{x:,.0f}" for x in (cost.publications_a_second, cost.notifications_a_second))
            shown.add_row(cost.scheme, *numbers, *rates)
        Console().print(shown)
    if changes:
        shown = Table(title="A change of the routing under traffic")
        for column in ("change", "took", "median before", "median", "longest", "notifications", "lost", "twice"):
            shown.add_column(column, justify="left" if column == "change" else "right")
        for each in changes:
            waits = (f"{x:.2f} s" for x in each[1:5])
            colour = "green" if each.longest <= LATEST and not each.lost and not each.twice else "red"
            shown.add_row(f"[{colour}]{each.what}[/]", *waits, *(f"{x:,}" for x in each[5:]))
        Console().print(shown)


@click.command()
@click.option("--scale", type=Share(), default=1.0, help="A part of the records, of the subscriptions and of the rate.")
@click.option("--only", type=click.Choice(["schemes", "change"]), help="One of the two.")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def main(scale: float, only: str | None, as_json: bool) -> None:
    directory = Path(tempfile.mkdtemp(prefix="pastforward-bench-"))
    bench = Bench(directory, scale)
    catalog = directory / "catalog.toml"
    catalog.write_text(catalog_text())
    costs: list[Cost] = []
    changes: list[Change] = []
    try:
        if only != "change":
            costs = [run_scheme(bench, scheme, catalog) for scheme in SCHEMES]
            if len({cost.notifications for cost in costs}) > 1:
                raise click.ClickException(f"the schemes do not agree: {[(c.scheme, c.notifications) for c in costs]}")
        if only != "schemes":
            catalog.write_text(STREAM_CATALOG)
            changes = run_change(bench, catalog)
    finally:
        bench.broker.stop()
        shutil.rmtree(directory, ignore_errors=True)
    if as_json:
        click.echo(json.dumps({"schemes": [c._asdict() for c in costs], "changes": [c._asdict() for c in changes]}))
    else:
        show(costs, changes)


if __name__ == "__main__":
    main()
