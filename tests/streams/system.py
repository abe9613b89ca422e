"""A whole system under test: random records in, and what must come out by the log that it wrote.

The two inputs have no common order, so the rendezvous log decides: `streams.reference` reads it record by record, and says what must
have been notified. The log itself is held against the inputs, read in plain loops here.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, astuple, dataclass, field, fields
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from pastforward import topics
from pastforward.matching.conditions.values import Value
from pastforward.schemas import (
    Best,
    Notification,
    Publication,
    SchemaError,
    Subscription,
    Version,
    Withdrawal,
    canonical_publication,
    canonical_subscription,
    decode_backfill_request,
    decode_best_offer,
    decode_dead_letter,
    decode_notification,
    decode_publication,
    decode_rendezvous,
    decode_subscription,
    encode,
)
from pastforward.schemas.acceptance import accept_publication, accept_subscription, normal_form
from pastforward.schemas.codec import Format
from pastforward.settings import load, parse_duration
from pastforward.streams.reference import Found, Partition
from pastforward.streams.routing import make_scheme
from tests.conftest import StartWorker
from tests.outside import PATIENCE, WorkerUnderTest
from tests.streams.quick import Quick

TOPICS = ["", "1", "1.2", "1.2.3", "2", "2.1", "3.3.3", "3.10", "4"]
MANY_TOPICS = ["", *(f"{a}" for a in range(1, 5)), *(f"{a}.{b}" for a in range(1, 9) for b in range(1, 9))]
# in long runs: the reference looks at every publication for each subscription
FEW_SUBSCRIPTIONS = (90, 5, 2, 1, 2)
PUBLICATIONS, SUBSCRIPTIONS = "publications", "subscriptions"
_FIELDS = attrgetter(*(each.name for each in fields(Notification) if each.name != "content"))


def fields_of(notification: Notification) -> tuple[Any, ...]:
    """All of them, so that they can be counted."""
    others, content = _FIELDS(notification), notification.content
    carried = None if content is None else (tuple(sorted(content.attributes.items())), *astuple(content)[1:])
    return (*others, carried)


def now() -> int:
    return time.time_ns() // 1000


@dataclass
class Setup:
    """How the system under test is run."""

    prefix: str
    index: str = "memory"
    layout: str = "dual"
    delivery: str = "exactly-once"
    partitions: int = 2
    workers: int = 1
    format: Format = "json"
    hot_window: str = "30s"
    session_timeout: str = "3s"
    joins: bool = True
    auctions: bool = True
    topics: list[str] = field(default_factory=lambda: TOPICS)
    # of publications, subscriptions, withdrawals, subscriptions sent again, bad records
    weights: tuple[int, ...] = (50, 35, 6, 4, 5)
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def hot(self) -> int:
        return parse_duration(self.hot_window)

    def worker(self) -> dict[str, Any]:
        return {
            "topic_prefix": self.prefix,
            "index": self.index,
            "layout": self.layout,
            "delivery": self.delivery,
            "partitions": self.partitions,
            "hot_window": self.hot_window,
            "session_timeout": self.session_timeout,
            **self.more,
        }


class Load:
    """Random records, seeded; sent in bursts. `sent` counts records by topic."""

    def __init__(self, bootstrap: str, setup: Setup, seed: int) -> None:
        self.setup, self.random = setup, random.Random(seed)
        self.sent: Counter[str] = Counter()
        self.used: list[tuple[str, bytes | None]] = []
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "linger.ms": 5,
                "message.timeout.ms": int(4 * PATIENCE * 1000),
                "log_level": 2,
            }
        )

    def burst(self, count: int) -> None:
        for _ in range(count):
            self._one()
            self.producer.poll(0)
        assert self.producer.flush(4 * PATIENCE) == 0

    def _one(self) -> None:
        rng = self.random
        match rng.choices(["publish", "subscribe", "withdraw", "again", "bad"], self.setup.weights)[0]:
            case "publish":
                self._publish()
            case "subscribe":
                self._subscribe()
            case "withdraw":
                self._send(SUBSCRIPTIONS, self._name(), None)
            case "again" if self.used:
                self._send(SUBSCRIPTIONS, *rng.choice(self.used))
            case _:
                self._bad()

    def _name(self) -> str:
        return f"s{self.random.randint(0, 60)}"

    def _subscribe(self) -> None:
        rng = self.random
        self_join = self.setup.joins and rng.random() < 0.2
        conditions = [
            None,
            f"x >= {rng.randint(0, 9)}",
            f"x = {rng.randint(0, 9)} OR kind = 'a'",
            "kind LIKE 'a%' AND x < 5",
        ]
        starts, ends = None, None
        if rng.random() < 0.5:
            starts = now() - rng.randint(0, 2 * self.setup.hot)
        if rng.random() < 0.3:
            ends = now() + rng.randint(-self.setup.hot, self.setup.hot)
        record = Subscription(
            self._name(),
            rng.choice(["anna", "ben"]),
            rng.choice(self.setup.topics),
            rng.choice(["overlap", "overlap", "subtree"]),
            starts,
            ends,
            rng.choice(["published", "published", "valid"]),
            rng.choice(conditions + ["previous.x < x", "previous.x IS NULL"] * self_join),
            rng.choices(["classical", "symmetric", "intersect"], [8, 1, 1])[0],  # type: ignore[arg-type]
            self_join,
            rng.choice(["content", "content", "ids"]),
        )
        value = encode_leniently(record, self.setup.format)
        self.used = [*self.used[-50:], (record.subscription_id, value)]
        self._send(SUBSCRIPTIONS, record.subscription_id, value)

    def _publish(self) -> None:
        rng = self.random
        # sometimes one that was there before: publications are immutable, its topic is the same
        number = self.sent[PUBLICATIONS] if rng.random() < 0.95 else rng.randint(0, 50)
        topic = self.setup.topics[number % len(self.setup.topics)]
        attributes: dict[str, Value] = {"kind": rng.choice(["a", "ab", "b"])}
        if rng.random() < 0.9:
            attributes["x"] = rng.randint(0, 9)
        published = expires = None
        if rng.random() < 0.2:
            published = now() + rng.choice([-1, -1, 1]) * rng.randint(0, 2 * self.setup.hot)
        if rng.random() < 0.2:
            expires = (published or now()) + rng.randint(1, 5_000_000)
        record = Publication(
            f"p{number}",
            "publisher" if rng.random() < 0.1 else None,
            topic,
            published,
            expires,
            attributes,
            rng.choice([None] * 8 + ["x BETWEEN 2 AND 4", "y > 1 OR x = 3"]),
            Best("x", rng.choice(["highest", "lowest"]))
            if self.setup.auctions and topic and rng.random() < 0.03
            else None,
            self.setup.joins and rng.random() < 0.1,
            rng.choice([None, None, b"carried \x00along"]),
        )
        self._send(PUBLICATIONS, f"p{number}", encode(record, self.setup.format))

    def _bad(self) -> None:
        topic, value = self.random.choice(
            [
                (PUBLICATIONS, b'{"topic": "1..2"}'),
                (PUBLICATIONS, None),
                (PUBLICATIONS, b"\xc3\x01 nothing"),
                (SUBSCRIPTIONS, b'{"subscriber_id": "s", "where": "x >"}'),
                (SUBSCRIPTIONS, b"{"),
            ]
        )
        # a subscription that is there already, if it is one: what is refused leaves it in force
        self._send(topic, self._name() if topic == SUBSCRIPTIONS else f"bad{self.sent[topic]}", value)

    def _send(self, topic: str, key: str, value: bytes | None) -> None:
        self.sent[topic] += 1
        self.producer.produce(self.setup.prefix + topic, key=key, value=value)


def encode_leniently(record: Subscription, format: Format) -> bytes:
    """A window that ends before it begins is refused here as it is by the router: then without an end."""
    try:
        return encode(record, format)
    except SchemaError:
        record.ends_at = None
        return encode(record, format)


class Log:
    """What is on the topics of a system."""

    def __init__(self, bootstrap: str, setup: Setup) -> None:
        self.bootstrap, self.setup = bootstrap, setup

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})

    def consumer(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"{self.setup.prefix}reader",
                **topics.TO_THE_END,
                "log_level": 2,
            }
        )

    @property
    def node(self) -> str:
        """The id of the only broker."""
        return str(min(self.admin.list_topics(timeout=PATIENCE).brokers))

    def alter(self, resource: ConfigResource, config: dict[str, str]) -> None:
        changed = ConfigResource(
            resource.restype,
            resource.name,
            incremental_configs=[
                ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in config.items()
            ],
        )
        for future in self.admin.incremental_alter_configs([changed]).values():
            future.result()

    def stamp(self, topic: str, by: str) -> None:
        """`LogAppendTime`, or `CreateTime`: then who writes gives the stamps. Bad records tell when the broker has understood; they get
        the present as their stamp."""
        name = self.setup.prefix + topic
        self.alter(ConfigResource(ConfigResource.Type.TOPIC, name), {"message.timestamp.type": by})
        producer = Producer({"bootstrap.servers": self.bootstrap})
        kinds: list[int] = []
        wanted = {"CreateTime": TIMESTAMP_CREATE_TIME, "LogAppendTime": TIMESTAMP_LOG_APPEND_TIME}[by]
        deadline = time.monotonic() + PATIENCE
        while kinds[-1:] != [wanted]:
            assert time.monotonic() < deadline, f"{name} is not stamped by {by}"
            producer.produce(name, b"{", b"bad", on_delivery=lambda _, message: kinds.append(message.timestamp()[0]))
            assert producer.flush(PATIENCE) == 0

    def ends(self, topic: str) -> dict[int, int]:
        reader = self.consumer()
        found = {p: end for p, (_, end) in topics.watermarks(reader, self.setup.prefix + topic).items()}
        reader.close()
        return found

    def committed(self, topic: str) -> dict[int, int]:
        group = f"{self.setup.prefix}worker"
        name = self.setup.prefix + topic

        deadline = time.monotonic() + PATIENCE
        while True:
            asked = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)], request_timeout=5)
            try:
                found = next(iter(asked.values())).result().topic_partitions
            except KafkaException:  # the broker has gone and come back: a client does not always get over it
                if time.monotonic() > deadline:
                    raise
                del self.admin
                continue
            return {tp.partition: tp.offset for tp in found if tp.topic == name}

    def wait(self, meanwhile: Callable[[], None], patience: float = 4 * PATIENCE) -> None:
        """Until everything sent so far is through. `meanwhile` is called again and again."""
        deadline = time.monotonic() + patience

        def reached(topic: str, ends: dict[int, int]) -> bool:
            at = self.committed(topic)
            return all(at.get(p, 0) >= end for p, end in ends.items())

        for topic in (SUBSCRIPTIONS, PUBLICATIONS, "rendezvous"):
            ends = self.ends(topic)
            while not reached(topic, ends):
                meanwhile()
                assert time.monotonic() < deadline, f"{topic}: {self.committed(topic)} of {ends}"
                time.sleep(0.1)

    def read(self, topic: str) -> dict[int, list[Any]]:
        reader = self.consumer()
        found: dict[int, list[Any]] = {p: [] for p in self.ends(topic)}
        reader.assign([TopicPartition(self.setup.prefix + topic, p, 0) for p in found])
        open_ = set(found)
        deadline = time.monotonic() + 4 * PATIENCE
        while open_:
            assert time.monotonic() < deadline, f"{topic} cannot be read to its end"
            for message in topics.arrived(reader, 1000, 0.05):
                if message.error():
                    open_.discard(message.partition())
                else:
                    found[message.partition()].append(message)
        reader.close()
        return found

    def each(self, topic: str) -> list[Any]:
        return [message for messages in self.read(topic).values() for message in messages]


# ------------------------------------------------------------------------------------------------ what must be there


def check(log: Log, *, repeats: bool = False) -> int:
    """Every pair that the log decides was notified, once; nothing else was. Returns how many. To be called when no worker runs.

    `repeats`: the same may have been said more than once, as it may be with at-least-once after a kill.
    """
    ends = log.committed("rendezvous")
    expected: Counter[tuple[Any, ...]] = Counter()
    offers: Counter[tuple[Any, ...]] = Counter()
    requests: dict[bytes, Any] = {}
    for number, messages in log.read("rendezvous").items():
        for found in findings(Quick(number, log.setup.hot), messages, ends.get(number, 0)):
            expected.update(fields_of(n) for n in found.notifications)
            offers.update(astuple(offer) for offer in found.offers)
            for r in found.requests:
                requests[f"{r.subscription.subscription_id}\0{r.subscription.version}\0{number}".encode()] = asdict(r)
    told = Counter(fields_of(decode_notification(m.value())) for m in log.each("notifications"))
    offered = Counter(astuple(decode_best_offer(m.value())) for m in log.each("best-offers"))
    asked = {m.key(): asdict(decode_backfill_request(m.value())) for m in log.each("backfill-requests")}
    if repeats:
        same(Counter({n[0] for n in told}), Counter({n[0] for n in expected}))
        same(Counter(set(offered)), Counter(set(offers)))
        assert asked.keys() == requests.keys()
    else:
        same(told, expected)
        same(offered, offers)
        assert asked == requests
    return len(told)


def findings(reference: Partition, messages: list[Any], end: int) -> Iterator[Found]:
    """What the reference finds in a rendezvous log, record by record, below an offset."""
    for message in messages:
        if message.offset() >= end:
            break
        envelope = decode_rendezvous(message.value())
        if envelope.origin == "none":
            envelope.arrived_at = message.timestamp()[1] * 1000
        yield reference.apply(envelope, message.offset())


def same(found: Counter[Any], wanted: Counter[Any]) -> None:
    """Tells a few of what is missing or too much: pytest would be busy for minutes with the difference."""
    missing, surplus = wanted - found, found - wanted
    if missing or surplus:
        few = "\n".join(
            f"{what}: {each}" for what, some in (("missing", missing), ("surplus", surplus)) for each in list(some)[:4]
        )
        raise AssertionError(f"{missing.total()} of {wanted.total()} missing, {surplus.total()} too much:\n{few}")


def read_inputs(log: Log) -> tuple[dict[tuple[int, str, int, int], Any], set[tuple[str, int, int]]]:
    """What must be in the log, by partition and origin, and the places of what is refused."""
    scheme: Any = make_scheme("dewey", log.setup.partitions, 1)
    wanted: dict[tuple[int, str, int, int], Any] = {}
    letters: set[tuple[str, int, int]] = set()
    for origin in (SUBSCRIPTIONS, PUBLICATIONS):
        for partition, messages in log.read(origin).items():
            routes: dict[str, tuple[tuple[int, ...], bytes, int | None]] = {}
            latest = 0  # arrivals do not go back, whatever the broker's clock does
            for message in messages:
                place = (origin, partition, message.offset())
                arrived = latest = max(latest, message.timestamp()[1] * 1000)
                try:
                    if origin == PUBLICATIONS:
                        for number, record in _published(scheme, message, partition, arrived):
                            wanted[number, *place] = record
                    else:
                        version = Version(arrived, *place[1:])
                        for number, record in _subscribed(scheme, message, version, routes, log.setup.hot):
                            wanted[number, *place] = record
                except SchemaError:
                    letters.add(place)
    return wanted, letters


def check_letters(log: Log, letters: set[tuple[str, int, int]], *, repeats: bool = False) -> None:
    """Each of these places has a dead letter, once, and no other has."""
    dead = [decode_dead_letter(m.value()) for m in log.each("dead-letters")]
    places = [(letter.topic.removeprefix(log.setup.prefix), letter.partition, letter.offset) for letter in dead]
    assert set(places) == letters
    assert repeats or len(places) == len(letters)


def check_inputs(log: Log, *, repeats: bool = False) -> None:
    """Every good input is in the log, where it belongs and as it was; every bad one is a dead letter, and nothing else is there."""
    wanted, letters = read_inputs(log)
    found: dict[tuple[int, str, int, int], Any] = {}
    for number, messages in log.read("rendezvous").items():
        last: dict[tuple[str, int], int] = {}
        for message in messages:
            envelope = decode_rendezvous(message.value())
            if envelope.origin == "none":
                continue
            key = (number, envelope.origin, envelope.partition, envelope.offset)
            assert repeats or key not in found, f"{key} was routed twice"
            if not repeats:
                assert envelope.offset > last.get(key[1:3], -1), f"{key} came after its successor"
                last[envelope.origin, envelope.partition] = envelope.offset
            found[key] = envelope.record
    if (
        repeats
    ):  # routed again, with what is known by then of later versions: withdrawals of old versions, which change nothing
        found = {key: record for key, record in found.items() if key in wanted or not isinstance(record, Withdrawal)}
    wrong = [key for key in {**found, **wanted} if found.get(key) != wanted.get(key)]
    assert not wrong, (len(wrong), wrong[0], found.get(wrong[0]), wanted.get(wrong[0]))
    check_letters(log, letters, repeats=repeats)


def _published(scheme: Any, message: Any, partition: int, arrived: int) -> list[tuple[int, Any]]:
    read = decode_publication(message.key(), message.value())
    where = accept_publication(read)
    record = canonical_publication(read, partition, message.offset(), arrived, where)
    return [(number, record) for number in scheme.of_topic(record.topic)]


def _subscribed(
    scheme: Any, message: Any, version: Version, routes: dict[str, Any], hot_window: int
) -> list[tuple[int, Any]]:
    read = decode_subscription(message.key(), message.value())
    name = read.subscription_id
    before, bytes_before, until = routes.get(name, ((), None, None))
    if until is not None and version.arrived_at > until:  # it has ended, and is forgotten
        before, bytes_before = (), None
    if isinstance(read, Withdrawal):
        routes.pop(name, None)
        return [(number, Withdrawal(name, version)) for number in before]
    if bytes_before == message.value():
        return []
    accept_subscription(read, arrived_at=version.arrived_at)
    record = canonical_subscription(read, version, normal_form(read.where))
    here = scheme.of_topic(record.topic)
    until = None if record.ends_at is None else max(record.ends_at, version.arrived_at) + hot_window
    routes[name] = (here, message.value(), until)
    gone = [(number, Withdrawal(name, version)) for number in before if number not in here]
    return [(number, record) for number in here] + gone


# ------------------------------------------------------------------------------------------------ a running system


def searches_in(worker: WorkerUnderTest) -> float:
    """Searches of the past that go on behind their chunks; none if the worker does not answer."""
    lines = worker.get("metrics")[1].splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("pastforward_past_searches{"))


class System:
    """Topics, a load and a log; workers with a directory each."""

    def __init__(self, bootstrap: str, start_worker: StartWorker, directory: Path, setup: Setup, seed: int = 1) -> None:
        self.setup, self._start, self._directory = setup, start_worker, directory
        self.bootstrap = bootstrap
        settings = load({"topic_prefix": setup.prefix, "partitions": str(setup.partitions)}, environment={})
        topics.ensure(settings, topics.connect(settings, bootstrap))
        self.load = Load(bootstrap, setup, seed)
        self.log = Log(bootstrap, setup)
        self.workers: list[WorkerUnderTest] = []

    def directory(self, number: int) -> Path:
        return self._directory / str(number)

    def start(self, number: int) -> WorkerUnderTest:
        self.directory(number).mkdir(parents=True, exist_ok=True)
        return self._start(bootstrap=self.bootstrap, data_dir=self.directory(number), **self.setup.worker())

    def start_all(self) -> None:
        self.workers = [self.start(number) for number in range(self.setup.workers)]

    def wait_ready(self) -> None:
        for worker in self.workers:
            worker.wait_ready()

    def revive(self) -> None:
        """What a supervisor does: a worker that has failed is started again."""
        for number, worker in enumerate(self.workers):
            if worker.process.poll() is not None:
                assert worker.process.returncode == 1, worker.fate()
                self.workers[number] = self.start(number)

    def finish(self, *, revive: bool = False) -> None:
        """Everything through, and every worker stopped in order."""
        self.wait(revive=revive)
        # one that is on its way out with an error, as a zombie is, may meet the signal in any moment of it
        ways = {0, 1, -signal.SIGTERM} if revive else {0}
        for worker in self.workers:
            if not revive:
                worker.wait_ready()  # before that it dies by the signal as any process does
            assert worker.stop() in ways, worker.fate()

    def wait(self, *, revive: bool = False) -> None:
        try:
            self.log.wait(self.revive if revive else self.running)
        except AssertionError as error:
            raise AssertionError("\n".join([str(error), *(worker.fate() for worker in self.workers)])) from None
        deadline = time.monotonic() + 4 * PATIENCE
        while any(searches_in(worker) for worker in self.workers):
            assert time.monotonic() < deadline, "a search of the past goes on and on"
            time.sleep(0.05)

    def running(self) -> None:
        for worker in self.workers:
            assert worker.process.poll() is None, worker.fate()
