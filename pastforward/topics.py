"""The topics: names, partitions, what is kept for how long. Creates what is missing, refuses what does not fit."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar, cast

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from pastforward.errors import UserError
from pastforward.settings import Settings

T = TypeVar("T")

DAY_MS: Final = 86_400_000
WEEK_MS: Final = 7 * DAY_MS
LARGE: Final = (
    4 << 20
)  # an input record may have 1 MiB; with its envelope, as a dead letter or in a notification, it is larger
LARGEST: Final = 9 << 20  # an auction is kept with the publication before it, each of them up to LARGE
TOLD: Final = 12 << 20  # a notification carries what an input record holds, in JSON if so wished
TIMEOUT: Final = 15.0  # seconds for a request to the broker
ANSWER: Final = 5.0  # seconds for one that can be made again
CONNECT_TRIES: Final = 3  # of a second each: who waits at a keyboard gets an answer within five seconds
# a partition that was just created, or whose broker just came back, is led within the next moments
UNLED: Final = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,
)


@dataclass(frozen=True, slots=True)
class Topics:
    """Full names under one prefix. `version`: of the routing, which has a rendezvous log and changelogs of its own."""

    prefix: str
    version: int = 1

    @property
    def subscriptions(self) -> str:
        return f"{self.prefix}subscriptions"

    @property
    def publications(self) -> str:
        return f"{self.prefix}publications"

    def _of_version(self, name: str) -> str:
        return f"{self.prefix}{name}" if self.version == 1 else f"{self.prefix}{name}-{self.version}"

    @property
    def rendezvous(self) -> str:
        return self._of_version("rendezvous")

    @property
    def notifications(self) -> str:
        return f"{self.prefix}notifications"

    @property
    def dead_letters(self) -> str:
        return f"{self.prefix}dead-letters"

    @property
    def backfill_requests(self) -> str:
        return f"{self.prefix}backfill-requests"

    @property
    def directory(self) -> str:
        return f"{self.prefix}directory"

    @property
    def best_offers(self) -> str:
        return f"{self.prefix}best-offers"

    @property
    def names(self) -> str:
        """What paths are called, where they were made of names."""
        return f"{self.prefix}names"

    @property
    def routes(self) -> str:
        """Changelog of the router: where each subscription went."""
        return self._of_version("routes-changelog")

    @property
    def live(self) -> str:
        """Changelog of the matcher: each live subscription, and how far its partition has come."""
        return self._of_version("live-changelog")


def group_of(settings: Settings, version: int) -> str:
    """The consumer group of the workers, and what their transactional ids begin with: one for each version of the routing."""
    return settings.application if version == 1 else f"{settings.application}-{version}"


POLICY: Final = "cleanup.policy"
STAMPED: Final = {"message.timestamp.type": "LogAppendTime"}
COMPACTED: Final = {**STAMPED, POLICY: "compact"}
LIMIT: Final = "max.message.bytes"
HOLDS_LARGE: Final = {LIMIT: str(LARGE)}
HOLDS_LARGEST: Final = {LIMIT: str(LARGEST)}


@dataclass(frozen=True, slots=True)
class Plan:
    """A topic as it should be; `single`: one partition, whatever PARTITIONS says."""

    name: str
    config: dict[str, str]
    single: bool = False


def plan(settings: Settings) -> list[Plan]:
    names = Topics(settings.topic_prefix)
    held = {"min.compaction.lag.ms": str(WEEK_MS), "delete.retention.ms": str(WEEK_MS)}
    return [
        Plan(names.subscriptions, {**COMPACTED, **held}),
        Plan(names.publications, _kept(WEEK_MS)),
        Plan(names.notifications, {**_kept(WEEK_MS), LIMIT: str(TOLD)}),
        Plan(names.dead_letters, {**_kept(WEEK_MS), **HOLDS_LARGE}),
        Plan(names.backfill_requests, {**COMPACTED, **HOLDS_LARGE}, single=True),
        Plan(names.directory, COMPACTED, single=True),
        Plan(names.best_offers, {**COMPACTED, **HOLDS_LARGE}),
        Plan(names.names, COMPACTED, single=True),
        *plan_version(settings, 1),
    ]


def plan_version(settings: Settings, version: int) -> list[Plan]:
    """What a version of the routing has of its own. The last one has as many partitions as the input."""
    names = Topics(settings.topic_prefix, version)
    return [
        Plan(names.rendezvous, {**_kept(2 * settings.hot_window // 1000 + WEEK_MS), **HOLDS_LARGE}),
        Plan(names.live, {**COMPACTED, **HOLDS_LARGEST}),
        Plan(names.routes, COMPACTED),
    ]


def _kept(ms: int) -> dict[str, str]:
    return {**STAMPED, POLICY: "delete", "retention.ms": str(ms)}


MOST_COPIES: Final = 3  # the usual number: one broker may be away while another is being replaced


class Copies(NamedTuple):
    """Of each topic that is made."""

    replication: int
    in_sync: int

    @classmethod
    def of(cls, settings: Settings, brokers: int) -> Copies:
        replication = settings.replication or min(MOST_COPIES, brokers)
        if replication > brokers:
            raise UserError(
                f"REPLICATION is {replication}, and the cluster has {brokers} brokers: set it to {brokers} at most"
            )
        in_sync = settings.min_insync_replicas or max(1, replication - 1)
        if in_sync > replication:
            raise UserError(
                f"MIN_INSYNC_REPLICAS is {in_sync}, and a topic has {replication} copies: set it to {replication} at most"
            )
        return cls(replication, in_sync)

    def topic(self, wanted: Plan, partitions: int) -> NewTopic:
        config = {**wanted.config, "min.insync.replicas": str(self.in_sync)}
        return NewTopic(wanted.name, partitions, replication_factor=self.replication, config=config)


def _copies(settings: Settings, admin: AdminClient) -> Copies:
    return Copies.of(settings, len(admin.list_topics(timeout=TIMEOUT).brokers))


# Of a consumer that reads what is committed, up to the end, and is notified of the end: it is known when a fetch comes back with nothing.
TO_THE_END: Final = {
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 10,
}


def client_config(settings: Settings, bootstrap: str, **extra: Any) -> dict[str, Any]:
    """What every confluent-kafka client of ours is made with. librdkafka says nothing itself: what it cannot do is an error here."""
    return {"bootstrap.servers": bootstrap, "log_level": 0, **settings.kafka, **extra}


def make_client(kind: Any, config: dict[str, Any]) -> Any:
    """A confluent-kafka client; a property it does not know is the user's to mend."""
    try:
        return kind(config)
    except KafkaException as error:
        raise UserError(f"Kafka refuses a property: {text_of(error)}; see PASTFORWARD_KAFKA_… or [kafka]") from error


def text_of(error: KafkaException) -> str:
    inner = error.args[0] if error.args else error
    return inner.str() if isinstance(inner, KafkaError) else str(inner)


# what a client says of a broker that is not there
CHECK: Final = "check PASTFORWARD_BOOTSTRAP_SERVERS and that the broker runs"
AWAY: Final = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._RESOLVE)


class Trouble:
    """librdkafka tells why it cannot connect only through a callback; the error of a request is a mere time-out."""

    def __init__(self) -> None:
        self.reason = ""

    def __call__(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN or not self.reason:
            self.reason = re.sub(r" \(after \d+ms in state .*\)$", "", error.str())


def connect(settings: Settings, bootstrap: str) -> AdminClient:
    """An admin client of a broker that answers; one line that says why not, if it does not."""
    trouble = Trouble()
    admin = make_client(AdminClient, client_config(settings, bootstrap, error_cb=trouble, log_level=0))
    reason = ""
    for _ in range(CONNECT_TRIES):
        try:
            admin.list_topics(timeout=1)
        except KafkaException as error:
            admin.poll(0)
            reason = trouble.reason or text_of(error)
        else:
            return cast(AdminClient, admin)
    secret = "uthentication" in reason or "SASL" in reason
    advice = "check PASTFORWARD_KAFKA_SASL_USERNAME, …_SASL_PASSWORD and …_SASL_MECHANISM" if secret else CHECK
    raise UserError(f"cannot reach Kafka at {bootstrap}: {reason}; {advice}")


def quiet_admin(settings: Settings, bootstrap: str) -> AdminClient:
    """One that says nothing while the broker is away."""
    return cast(
        AdminClient, make_client(AdminClient, client_config(settings, bootstrap, error_cb=Trouble(), log_level=0))
    )


def topic_ids(admin: AdminClient, names: list[str]) -> dict[str, str | None]:
    """The id that Kafka gave each topic when it was made; None: there is no such topic. Raises `KafkaException` if nobody answers."""
    admin.poll(0)  # what it has to say of the time since the last call
    found: dict[str, str | None] = {}
    for name, future in admin.describe_topics(TopicCollection(names), request_timeout=ANSWER).items():
        try:
            found[name] = str(future.result().topic_id)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            found[name] = None
    return found


def existing(admin: AdminClient) -> dict[str, int]:
    """Name and partition count of every topic of the cluster."""
    metadata = admin.list_topics(timeout=TIMEOUT)
    return {name: len(topic.partitions) for name, topic in metadata.topics.items()}


def check_there(settings: Settings, bootstrap: str, there: Iterable[str]) -> None:
    """Whether the topics of that prefix are among those of the cluster; an error that says what to do, if not."""
    names = set(there)
    inputs = Topics(settings.topic_prefix)
    missing = [name for name in (inputs.subscriptions, inputs.publications) if name not in names]
    if not missing:
        return
    prefixes = [name.removesuffix("subscriptions") for name in names if name.endswith("subscriptions")]
    others = sorted(prefix for prefix in prefixes if Topics(prefix).publications in names)
    known = f"; the prefixes that have topics there are: {', '.join(map(repr, others))}" if others else ""
    raise UserError(
        f"topic {missing[0]} is not there, at {bootstrap}: start a worker or run `pastforward topics`, "
        f"or set PASTFORWARD_TOPIC_PREFIX{known}"
    )


def ensure(settings: Settings, admin: AdminClient) -> tuple[int, list[str]]:
    """Create what is missing. Returns the partition count in force and the names that were created.

    Topics that exist keep their count as long as all agree; PARTITIONS counts at creation only.
    """
    wanted = plan(settings)
    count = _agreed(settings, wanted, existing(admin))
    missing = [p for p in wanted if p.name not in existing(admin)]
    if missing:
        copies = _copies(settings, admin)
        create(admin, [copies.topic(p, 1 if p.single else count) for p in missing])
    wait_visible(admin, [p.name for p in wanted])
    count = _agreed(settings, wanted, existing(admin))
    _check_configs(admin, wanted)
    return count, [p.name for p in missing]


def create_version(settings: Settings, admin: AdminClient, version: int, partitions: int) -> None:
    """The topics of a new version of the routing. Those that are there already, from a change that was cut off, must fit."""
    there = existing(admin)
    inputs = there[Topics(settings.topic_prefix).subscriptions]
    rendezvous, live, routes = plan_version(settings, version)
    counts = {rendezvous.name: partitions, live.name: partitions, routes.name: inputs}
    for name, count in counts.items():
        if there.get(name, count) != count:
            raise UserError(f"topic {name} has {there[name]} partitions where {count} are needed; delete it")
    missing = [p for p in (rendezvous, live, routes) if p.name not in there]
    if missing:
        copies = _copies(settings, admin)
        create(admin, [copies.topic(p, counts[p.name]) for p in missing])
    wait_visible(admin, counts)


def create(admin: AdminClient, new: list[NewTopic]) -> None:
    for name, future in (admin.create_topics(new, operation_timeout=TIMEOUT) if new else {}).items():
        try:
            future.result()
        except KafkaException as error:
            # somebody started at the same moment and was first; the caller checks what is there
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise UserError(f"cannot create topic {name}: {text_of(error)}") from error


def wait_visible(admin: AdminClient, names: Iterable[str]) -> None:
    """A broker answers the creation of a topic before it tells of it."""
    deadline = time.monotonic() + TIMEOUT
    hidden = set(names)
    while hidden := hidden - existing(admin).keys():
        if time.monotonic() > deadline:
            raise UserError(f"the broker does not show {', '.join(sorted(hidden))}, {TIMEOUT:.0f} s after creation")
        time.sleep(0.02)


def watermarks(consumer: Any, topic: str) -> dict[int, tuple[int, int]]:
    """The first offset that is there and the next that will be, by partition."""
    try:
        found = consumer.list_topics(topic, timeout=TIMEOUT).topics[topic]
    except KafkaException as error:
        if error.args[0].code() not in AWAY:
            raise
        raise UserError(f"cannot reach Kafka: {text_of(error)}; {CHECK}") from error
    if found.error is not None:
        raise UserError(f"topic {topic} is not there; run `pastforward topics` or start a worker first")
    ask = consumer.get_watermark_offsets
    return {p: patiently(partial(ask, TopicPartition(topic, p), timeout=TIMEOUT)) for p in found.partitions}


def arrived(consumer: Any, most: int, timeout: float) -> list[Any]:
    """Messages, as soon as there is one: `consume` alone waits until there are as many as it may return, or for all of its time."""
    first: list[Any] = consumer.consume(1, timeout)
    return first + consumer.consume(most, 0) if first else first


def patiently(call: Callable[[], T]) -> T:
    """Ask again while the partition has no leader yet."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        try:
            return call()
        except KafkaException as error:
            if error.args[0].code() not in UNLED or time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def _agreed(settings: Settings, wanted: list[Plan], there: dict[str, int]) -> int:
    """The partition count that all topics have or will have."""
    counts = {p.name: there[p.name] for p in wanted if p.name in there and not p.single}
    count = min(counts.values(), default=settings.partitions)
    if settings.sources.get("partitions", "default") != "default" and count != settings.partitions:
        raise UserError(
            f"topic {min(counts, key=lambda n: counts[n])} has {count} partitions, PARTITIONS is {settings.partitions}; "
            f"set PARTITIONS to {count}, or use another TOPIC_PREFIX"
        )
    for item in wanted:
        due = 1 if item.single else count
        if there.get(item.name, due) != due:
            raise UserError(
                f"topic {item.name} has {there[item.name]} partitions where {due} are needed; "
                f"delete it (its data is lost), or use another TOPIC_PREFIX"
            )
    return count


def _check_configs(admin: AdminClient, wanted: list[Plan]) -> None:
    """Of topics that were there: arrival must be the broker's time, nothing may be deleted that is still needed, and what an earlier
    version made may hold too little."""
    plans = {p.name: p.config for p in wanted}
    resources = [ConfigResource(ResourceType.TOPIC, p.name) for p in wanted]
    for resource, future in (admin.describe_configs(resources) if resources else {}).items():
        config = future.result()
        stamped = config["message.timestamp.type"].value
        if stamped != "LogAppendTime":
            raise UserError(
                f"topic {resource.name} has message.timestamp.type={stamped}, but arrival must be the broker's time; "
                + _alter(resource.name, "message.timestamp.type", "LogAppendTime")
            )
        due = plans[resource.name]
        policy = config[POLICY].value
        if policy != due[POLICY]:
            what = (
                "what is still needed would be deleted"
                if "delete" in policy
                else "records of one key would replace one another"
            )
            raise UserError(
                f"topic {resource.name} has {POLICY}={policy}, and {what}; {_alter(resource.name, POLICY, due[POLICY])}"
            )
        limit = int(due.get(LIMIT, 0))
        if int(config[LIMIT].value) < limit:
            _raise_limit(admin, resource.name, limit)


def _alter(topic: str, name: str, value: str) -> str:
    return f"mend it: kafka-configs --alter --entity-type topics --entity-name {topic} --add-config {name}={value}"


def _raise_limit(admin: AdminClient, name: str, limit: int) -> None:
    entry = ConfigEntry(LIMIT, str(limit), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
    try:
        for future in admin.incremental_alter_configs([resource]).values():
            future.result()
    except KafkaException as error:
        raise UserError(
            f"topic {name} must take records of {limit} bytes, and its limit cannot be raised ({text_of(error)}); "
            + _alter(name, LIMIT, str(limit))
        ) from error
