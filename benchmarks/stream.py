"""The stream figures: `pastforward bench stream`. A real broker and one worker on the same two cores.

Everything is measured in one run. The topics are filled before the worker that is measured starts, so that the producer does not
compete with it; a rate is from `/ready` to the moment at which the worker's own counters say that all is committed, read five times a
second. The same topic is read by a bare confluent-kafka consumer and by a stock Faust agent that only decodes, and rates stand beside
theirs. `--quick` takes a tenth of the records, `--only` those loads whose name begins so.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click
import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition
from rich.console import Console
from rich.table import Table

from pastforward import broker as embedded
from pastforward import topics
from pastforward.benchmarks.generators import stream as loads
from pastforward.benchmarks.options import RESULTS, Share, beginning, environment, settings_for
from pastforward.columns.vocabulary import Deliver
from pastforward.schemas import Publication, decode_notification, encode
from pastforward.schemas.codec import Format
from pastforward.settings import Settings

FORMATS: Final[tuple[Format, ...]] = ("avro", "json")
PARTITIONS: Final = 4
SAMPLE: Final = 0.2  # seconds between two looks at the counters
PATIENCE: Final = 1200.0  # seconds until a load that does not end is given up
STOCK: Final = 60_000  # records the stock agent reads, at most: it is slow
RATE: Final = 2_000  # publications a second, for the latency
OPERATIONS: Final = 2_000_000 / 60  # a second, of drivers
TOLD: Final = 1_000_000  # notifications of a run of fan-out
TOGETHER: Final = 200_000  # in a transaction, as in the worker's
ROUNDS: Final = 3  # runs of what is held against each other, in turn; the one in the middle counts
LOADS: Final = (
    "avro",
    "json",
    "drivers",
    "fan-out",
    "content",
    "latency exactly-once",
    "latency at-least-once",
    "million",
)
HOT: Final = "10s"  # so that what is held fits in memory at any of these rates
DRIVERS_HOT: Final = "5m"  # publications are routed ahead of subscriptions; nothing is to be asked of the history

console = Console(stderr=True)


@dataclass(slots=True)
class Figure:
    """One line of the table. `better`: whether a higher value is."""

    load: str
    what: str
    value: float
    unit: str
    wanted: float | None = None
    better: str = "higher"
    beside: dict[str, float] = field(default_factory=dict)

    @property
    def holds(self) -> bool | None:
        if self.wanted is None:
            return None
        return self.value >= self.wanted if self.better == "higher" else self.value <= self.wanted


class Worker:
    """A worker process, watched through its own pages."""

    def __init__(self, settings: Settings, bootstrap: str, log: Path, **more: str) -> None:
        self.port = embedded.any_port()
        flags = {
            "bootstrap-servers": bootstrap,
            "topic-prefix": settings.topic_prefix,
            "data-dir": str(settings.data_dir),
            "partitions": str(settings.partitions),
            "web-port": str(self.port),
            **more,
        }
        arguments = [part for name, value in flags.items() for part in (f"--{name}", value)]
        command = [sys.executable, "-P", "-m", "pastforward", "worker", *arguments]
        self.began = time.perf_counter()
        with log.open("ab") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output, env=environment())
        self._log = log

    def page(self, name: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{name}", timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, ""
        except OSError:
            return 0, ""

    def check(self) -> None:
        if self.process.poll() is not None:
            raise click.ClickException(f"the worker has ended:\n{self._log.read_text()[-2000:]}")

    def wait_ready(self) -> float:
        """Seconds from the start of the process."""
        while self.page("ready")[0] != 200:
            self.check()
            time.sleep(0.02)
        return time.perf_counter() - self.began

    def counter(self, name: str, **labels: str) -> float:
        text = self.page("metrics")[1]
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        lines = re.findall(rf"^pastforward_{name}_total(?:{{(.*?)}})? (\S+)$", text, re.MULTILINE)
        return sum(float(value) for inside, value in lines if all(each in inside for each in wanted))

    def lag(self, topic: str) -> float:
        """Records of a topic that are committed and not processed, as far as the worker has heard."""
        text = self.page("metrics")[1]
        found = re.findall(rf'^pastforward_lag_records{{.*?topic="{topic}".*?}} (\S+)$', text, re.MULTILINE)
        return sum(map(float, found)) if found else float("inf")

    def seconds(self) -> dict[str, float]:
        """Where its time went, by stage: of computing and of sending."""
        text = self.page("metrics")[1]
        found = re.findall(r'^pastforward_(compute|send)_seconds_sum{topic="[^"]*?(\w+)"} (\S+)$', text, re.MULTILINE)
        return {f"{topic} {kind}": float(value) for kind, topic, value in found}

    def resident(self, what: str = "VmRSS") -> float:
        """Megabytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"{what}:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]

    def busy(self) -> float:
        """Seconds of processor time."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self, sign: int = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            self.process.send_signal(sign)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Bench:
    def __init__(self, directory: Path, scale: float) -> None:
        self.directory, self.scale = directory, scale
        self.settings = settings_for(directory)
        self.figures: list[Figure] = []
        self._subscribed: Settings | None = None
        with console.status("starting a broker"):
            self.broker = embedded.start(self.settings)

    def count(self, full: int) -> int:
        return int(full * self.scale)

    # ---------------------------------------------------------------------------------------- parts of a load

    def system(self, name: str, partitions: int = PARTITIONS) -> Settings:
        """Topics of their own, and a directory, for a load."""
        found = settings_for(
            self.directory / name,
            topic_prefix=f"{name}.",
            partitions=partitions,
            bootstrap_servers=self.broker.bootstrap,
        )
        found.data_dir.mkdir()
        topics.ensure(found, topics.connect(found, self.broker.bootstrap))
        return found

    def worker(self, settings: Settings, **more: str) -> Worker:
        return Worker(settings, self.broker.bootstrap, settings.data_dir / "worker.log", **more)

    def fill(self, settings: Settings, records: Iterable[loads.Record], count: int, what: str) -> dict[str, int]:
        """Returns how many went to each topic."""
        producer = Producer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "linger.ms": 20,
                "batch.size": 1 << 18,
                "compression.type": "lz4",
                "queue.buffering.max.messages": 500_000,
                "log_level": 3,
            }
        )
        sent: dict[str, int] = {}
        names = {name: settings.topic_prefix + name for name in ("subscriptions", "publications")}
        with progress(f"filling: {what}", count) as shown:
            for number, record in enumerate(records):
                while True:
                    try:
                        producer.produce(names[record.topic], record.value, record.key)
                        break
                    except BufferError:
                        producer.poll(0.05)
                sent[record.topic] = sent.get(record.topic, 0) + 1
                if number % 1000 == 0:
                    producer.poll(0)
                    shown(number)
            producer.flush()
        return sent

    def ends(self, topic: str) -> dict[int, int]:
        reader = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": "bench"})
        found = {partition: end for partition, (_, end) in topics.watermarks(reader, topic).items()}
        reader.close()
        return found

    def consumed(self, worker: Worker, wanted: dict[str, int], what: str) -> tuple[float, float]:
        """Seconds until the counters of the topics have risen by so much, and seconds of the worker's processor time."""
        began, busy = time.perf_counter(), worker.busy()
        total = sum(wanted.values())
        with progress(what, total) as shown:
            while True:
                done = {name: worker.counter("records", topic=name) for name in wanted}
                shown(sum(done.values()))
                if all(done[name] >= count for name, count in wanted.items()):
                    return time.perf_counter() - began, worker.busy() - busy
                worker.check()
                if time.perf_counter() - began > PATIENCE:
                    raise click.ClickException(f"{what}: {done} of {wanted} after {PATIENCE:.0f} s")
                time.sleep(SAMPLE)

    def subscribed(self) -> Settings:
        """A system that holds 100,000 subscriptions, made once for all loads; its worker has stopped."""
        if self._subscribed is None:
            settings, count = self.system("publications"), self.count(100_000)
            self.fill(settings, loads.subscriptions(count), count, f"{count:,} subscriptions")
            worker = self.worker(settings, **{"hot-window": HOT})
            try:
                worker.wait_ready()
                self.consumed(worker, {settings.topic_prefix + "rendezvous": count}, "taking the subscriptions")
            finally:
                worker.stop()
            self._subscribed = settings
        return self._subscribed

    def stock(self, kind: str, topic: str, count: int) -> float:
        with console.status(f"{kind} on {topic}"):
            done = subprocess.run(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "pastforward.benchmarks.stream_stock",
                    kind,
                    self.broker.bootstrap,
                    topic,
                    str(count),
                ],
                capture_output=True,
                text=True,
                check=False,
            )
        found = re.search(r"rate=(\S+)", done.stdout)
        if found is None:
            raise click.ClickException(f"{kind} has failed:\n{done.stderr[-2000:]}")
        rate = float(found[1])
        if not rate:
            raise click.ClickException(f"{count} records came at once: too few to measure, raise --scale")
        return rate

    # ---------------------------------------------------------------------------------------- loads

    def publications(self, form: Any, wanted: float, times: float | None = None) -> None:
        """`times`: as fast as the stock agent that is wanted."""
        settings, count = self.subscribed(), self.count(1_000_000)
        topic = settings.topic_prefix + "publications"
        first = sum(self.ends(topic).values())
        self.fill(settings, loads.publications(count, form), count, f"{count:,} publications, {form}")
        few = min(count, STOCK)
        decoded = topic
        if first:  # the topic begins with records of another load: the agent gets the same ones in a topic of their own
            alone = self.system(f"stock-{form}")
            self.fill(alone, loads.publications(few, form), few, f"{few:,} publications, {form}")
            decoded = alone.topic_prefix + "publications"
        beside = {
            "consumer": self.stock("consumer", topic, first + count),
            "stock agent": self.stock("faust", decoded, few),
        }
        worker = self.worker(settings, **{"hot-window": HOT})
        try:
            worker.wait_ready()
            took, busy = self.consumed(worker, {settings.topic_prefix + "rendezvous": count}, f"publications, {form}")
            told = worker.counter("notifications")
            spent = worker.seconds()
        finally:
            worker.stop()
        name = f"publications, {form}"
        self.add(Figure(name, "a second", count / took, "", wanted, beside=beside))
        self.add(Figure(name, "times the stock agent", count / took / beside["stock agent"], "x", times))
        self.add(Figure(name, "of a bare consumer", count / took / beside["consumer"], "x"))
        self.add(Figure(name, "notifications each", told / count, ""))
        self.add(Figure(name, "processor time of the worker", 1e6 * busy / count, "us"))
        for stage, seconds in spent.items():
            self.add(Figure(name, stage, 1e6 * seconds / count, "us"))

    def drivers(self) -> None:
        count = self.count(2_000_000)
        settings = self.system("drivers")
        sent = self.fill(settings, loads.drivers(count, OPERATIONS), count, f"{count:,} operations of drivers")
        beside = {"consumer": self.stock("consumer", settings.topic_prefix + "publications", sent["publications"])}
        worker = self.worker(settings, **{"hot-window": DRIVERS_HOT})
        try:
            worker.wait_ready()
            took, busy = self.consumed(worker, {settings.topic_prefix + "rendezvous": count}, "drivers")
            told = worker.counter("notifications")
            spent = worker.seconds()
        finally:
            worker.stop()
        self.add(Figure("drivers", "operations a minute", 60 * count / took, "", 2_000_000, beside=beside))
        self.add(Figure("drivers", "notifications each", told / count, ""))
        self.add(Figure("drivers", "processor time of the worker", 1e6 * busy / count, "us"))
        for stage, seconds in spent.items():
            self.add(Figure("drivers", stage, 1e6 * seconds / count, "us"))

    def latency(self, delivery: str, p50: float, p99: float) -> None:
        settings, seconds = self.subscribed(), 30 if self.scale == 1 else 10
        worker = self.worker(settings, **{"hot-window": HOT, "delivery": delivery})
        try:
            worker.wait_ready()
            with console.status(f"{RATE:,} publications a second, {delivery}"):
                waits = self._waits(settings, seconds, delivery)
        finally:
            worker.stop()
        name = f"latency, {delivery}"
        self.add(Figure(name, "p50", float(np.percentile(waits, 50)), "ms", p50, "lower"))
        self.add(Figure(name, "p99", float(np.percentile(waits, 99)), "ms", p99, "lower"))
        self.add(Figure(name, "notifications", float(len(waits)), ""))

    def _waits(self, settings: Settings, seconds: int, prefix: str) -> list[float]:
        """Milliseconds from the call of `produce` to the notification in the hands of a read-committed consumer."""
        waits: list[float] = []
        done = threading.Event()
        warm = 3 * 1_000_000  # microseconds that are left out: connections are made, chunks find their size
        began = time.time_ns() // 1000

        def listen() -> None:
            reader = Consumer(
                {
                    "bootstrap.servers": self.broker.bootstrap,
                    "group.id": "bench",
                    "isolation.level": "read_committed",
                    "enable.auto.commit": False,
                    "fetch.wait.max.ms": 50,
                }
            )
            names = [TopicPartition(settings.topic_prefix + "notifications", number) for number in range(PARTITIONS)]
            reader.assign([TopicPartition(p.topic, p.partition, reader.get_watermark_offsets(p)[1]) for p in names])
            while not done.is_set():
                message = reader.poll(0.1)
                if message is not None and message.error() is None:
                    published = decode_notification(message.value()).published_at
                    if published >= began + warm:
                        waits.append((time.time_ns() / 1000 - published) / 1000)
            reader.close()

        listener = threading.Thread(target=listen)
        listener.start()
        time.sleep(1)
        began = time.time_ns() // 1000
        producer = Producer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "linger.ms": 2,  # as our client has it
            }
        )
        topic = settings.topic_prefix + "publications"
        samples = loads.samples(min(20_000, RATE * seconds))
        start = time.perf_counter()
        for number in range(RATE * (seconds + 3)):
            ahead = start + number / RATE - time.perf_counter()
            if ahead > 0:
                time.sleep(ahead)
            topic_of, attributes = samples[number % len(samples)]
            record = Publication(None, None, topic_of, time.time_ns() // 1000, attributes=attributes)
            producer.produce(topic, encode(record), f"{prefix}-{number}")
            producer.poll(0)
        producer.flush()
        time.sleep(2)
        done.set()
        listener.join()
        return waits

    def fan_outs(self) -> None:
        for fan_out in (100, 10_000):
            self.fan_out(fan_out, "ids", 0.6)
            self.fan_out(fan_out, "content", 0.4)

    def fan_out(self, fan_out: int, deliver: Deliver, wanted: float) -> None:
        """`wanted`: the part of a transactional producer of the same bytes, which has its turn after each run of the worker."""
        count, subscribed = max(10, self.count(TOLD) // fan_out), loads.SUBSCRIBED
        settings = self.system(f"told-{fan_out}-{deliver}")
        self.fill(settings, loads.told_subscriptions(fan_out, deliver), subscribed, f"{subscribed:,} subscriptions")
        self._run(settings, subscribed, "taking the subscriptions")
        found: list[tuple[float, float, float]] = []
        records: list[tuple[bytes, bytes]] = []
        for number in range(ROUNDS):
            self.fill(settings, loads.told_publications(count, fan_out, number), count, f"{count:,} publications")
            took, busy, told = self._run(settings, count, f"fan-out {fan_out:,}, {deliver}")
            if told != count * fan_out:
                raise click.ClickException(f"{told:,.0f} notifications, not {count * fan_out:,}")
            records = records or self._read(settings.topic_prefix + "notifications", TOLD)
            found.append((told / took, self._copied(settings, number, records), 1e6 * busy / told))
        rate, copied, busy = np.median(np.array(found), axis=0).tolist()
        name = f"fan-out {fan_out:,}, {deliver}"
        self.add(Figure(name, "notifications a second", rate, "", beside={"producer": copied}))
        self.add(Figure(name, "of a transactional producer", rate / copied, "x", wanted))
        self.add(Figure(name, "processor time of the worker", busy, "us"))
        size = sum(len(key) + len(value) for key, value in records) / len(records)
        self.add(Figure(name, "bytes each", size, ""))

    def _run(self, settings: Settings, count: int, what: str) -> tuple[float, float, float]:
        """Seconds for so many records of the rendezvous log, seconds of the worker's processor time, and notifications."""
        worker = self.worker(settings, **{"hot-window": HOT})
        try:
            worker.wait_ready()
            took, busy = self.consumed(worker, {settings.topic_prefix + "rendezvous": count}, what)
            return took, busy, worker.counter("notifications")
        finally:
            worker.stop()

    def _copied(self, settings: Settings, number: int, records: list[tuple[bytes, bytes]]) -> float:
        """How many of the notifications a transactional producer of confluent-kafka sends to a topic like theirs in a second, with nothing
        else to do."""
        copies = self.system(f"copies-{number}-{settings.topic_prefix.rstrip('.')}")
        topic = copies.topic_prefix + "notifications"
        producer = Producer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "transactional.id": topic,
                "partitioner": "murmur2_random",
                "linger.ms": 5,
                "batch.size": 1 << 20,
                "queue.buffering.max.messages": 1_000_000,
                "queue.buffering.max.kbytes": 1 << 20,
                "log_level": 3,
            }
        )
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce(topic, b"first", b"first")  # what is made once is not measured
        producer.commit_transaction(60)
        began = time.perf_counter()
        for first in range(0, len(records), TOGETHER):
            producer.begin_transaction()
            for number, (key, value) in enumerate(records[first : first + TOGETHER]):
                producer.produce(topic, value, key)
                if number % 10_000 == 0:
                    producer.poll(0)
            producer.commit_transaction(60)
        return len(records) / (time.perf_counter() - began)

    def _read(self, topic: str, most: int) -> list[tuple[bytes, bytes]]:
        reader = Consumer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "group.id": "bench",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        places = [TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)]
        reader.assign(places)
        found: list[tuple[bytes, bytes]] = []
        ended: set[int] = set()
        while len(ended) < len(places) and len(found) < most:
            for message in reader.consume(10_000, 0.5):
                if message.error() is not None:
                    ended.add(message.partition())
                else:
                    found.append((message.key(), message.value()))
        reader.close()
        return found

    def content(self) -> None:
        """What it costs that notifications carry content: the same loads with and without, in turn."""
        count, subscribed = self.count(1_000_000), self.count(100_000)
        delivers: tuple[Deliver, ...] = ("ids", "content")
        systems = {deliver: self.system(f"carry-{deliver}") for deliver in delivers}
        for deliver, settings in systems.items():
            self.fill(settings, loads.subscriptions(subscribed, deliver), subscribed, f"{subscribed:,} subscriptions")
            self._run(settings, subscribed, "taking the subscriptions")
        for form in FORMATS:
            rates: dict[str, list[float]] = {deliver: [] for deliver in delivers}
            for number in range(ROUNDS):
                for deliver in delivers if number % 2 else reversed(delivers):
                    settings = systems[deliver]
                    records = loads.publications(count, form, number + 1)
                    self.fill(settings, records, count, f"{count:,} publications, {form}")
                    took, _, _ = self._run(settings, count, f"publications, {form}, {deliver}")
                    rates[deliver].append(count / took)
            beside = {deliver: float(np.median(found)) for deliver, found in rates.items()}
            part = beside["content"] / beside["ids"]
            self.add(Figure(f"content, {form}", "of the rate with ids", part, "x", 0.9, beside=beside))

    def million(self) -> None:
        count = self.count(1_000_000)
        settings = self.system("million")
        self.fill(settings, loads.subscriptions(count), count, f"{count:,} subscriptions")
        worker = self.worker(settings)
        try:
            worker.wait_ready()
            took, busy = self.consumed(worker, {settings.topic_prefix + "rendezvous": count}, "taking subscriptions")
            self.add(Figure("a million subscriptions", "taken a second", count / took, ""))
            self.add(Figure("a million subscriptions", "processor time of the worker", 1e6 * busy / count, "us"))
            self.add(Figure("a million subscriptions", "resident, all taken", worker.resident(), "MB", 1536, "lower"))
        finally:
            worker.stop()
        for what, wanted, lost in (("start with local state", 15, False), ("rebuild from an empty disk", 60, True)):
            if lost:
                shutil.rmtree(settings.data_dir / "worker")
            worker = self.worker(settings)
            try:
                with console.status(what):
                    took = worker.wait_ready()
                self.add(Figure("a million subscriptions", what, took, "s", wanted, "lower"))
                self.add(Figure("a million subscriptions", f"resident, {what}", worker.resident(), "MB", 1536, "lower"))
            finally:
                worker.stop()

    def add(self, figure: Figure) -> None:
        self.figures.append(figure)
        console.print(f"{figure.load}: {figure.what}: {figure.value:,.{2 if figure.value < 100 else 0}f} {figure.unit}")

    def runs(self) -> dict[str, Callable[[], None]]:
        made: tuple[Callable[[], None], ...] = (
            lambda: self.publications("avro", 60_000, 10),
            lambda: self.publications("json", 40_000),
            self.drivers,
            self.fan_outs,
            self.content,
            lambda: self.latency("exactly-once", 120, 300),
            lambda: self.latency("at-least-once", 15, 60),
            self.million,
        )
        return dict(zip(LOADS, made, strict=True))


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[float], None]]:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


def table(figures: list[Figure]) -> Table:
    made = Table(title="Streams: one worker and the broker on the same two cores")
    for column in ("load", "figure"):
        made.add_column(column)
    for column in ("measured", "wanted", "beside it"):
        made.add_column(column, justify="right")
    for each in figures:
        sign = "" if each.wanted is None else ("at least" if each.better == "higher" else "at most")
        colour = {True: "green", False: "red", None: "default"}[each.holds]
        digits = 2 if each.value < 100 else 0
        made.add_row(
            each.load,
            each.what,
            f"[{colour}]{each.value:,.{digits}f} {each.unit}[/]",
            "" if each.wanted is None else f"{sign} {each.wanted:,.{1 if each.wanted < 1 else 0}f}",
            ", ".join(f"{name} {value:,.0f}" for name, value in each.beside.items()),
        )
    return made


def plot(figures: list[Figure], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as pyplot

    wanted = [each for each in figures if each.wanted]
    ratios = [
        each.value / each.wanted if each.better == "higher" else each.wanted / each.value
        for each in wanted
        if each.wanted and each.value
    ]
    picture, axes = pyplot.subplots(figsize=(9, 0.5 * len(wanted) + 1.5))
    names = [f"{each.load}: {each.what}" for each in wanted]
    axes.barh(names, ratios, color=["#4c9f70" if each.holds else "#c8553d" for each in wanted])
    axes.axvline(1, color="black", linewidth=1)
    axes.invert_yaxis()
    axes.set_xlabel("measured against wanted; right of the line is better")
    picture.tight_layout()
    picture.savefig(path, dpi=120)


@click.command()
@click.option("--quick", is_flag=True, help="A tenth of the records: --scale 0.1.")
@click.option("--scale", type=Share(), default=1.0, help="A part of the records, and of the subscriptions.")
@click.option("--only", default="", help=f"Loads whose name begins so: {', '.join(LOADS)}.")
@click.option("--plot", "picture", type=click.Path(path_type=Path), default=RESULTS / "stream.png", help="The figure.")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def main(quick: bool, scale: float, only: str, picture: Path, as_json: bool) -> None:
    try:
        asked = beginning(LOADS, only)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--only") from error
    directory = Path(tempfile.mkdtemp(prefix="pastforward-bench-"))
    bench = Bench(directory, 0.1 if quick else scale)
    try:
        runs = bench.runs()
        for name in asked:
            runs[name]()
    finally:
        bench.broker.stop()
        shutil.rmtree(directory, ignore_errors=True)
    if as_json:
        keys = ("load", "what", "value", "unit", "wanted", "holds", "beside")
        click.echo(json.dumps([{key: getattr(each, key) for key in keys} for each in bench.figures]))
        return
    Console().print(table(bench.figures))
    picture.parent.mkdir(parents=True, exist_ok=True)
    plot(bench.figures, picture)
    click.echo(f"plot: {picture}")


if __name__ == "__main__":
    main()
