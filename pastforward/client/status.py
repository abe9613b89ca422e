"""How a system is: its workers, and how far they are behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Final

from confluent_kafka import KafkaException

from pastforward import topics
from pastforward.client.client import Client
from pastforward.settings import Settings

ANSWER: Final = 5.0  # seconds for an answer of the broker


@dataclass(slots=True)
class Status:
    """`lag`: records that the workers have still to read, by topic. `workers`: members of their group, and where they run."""

    version: str
    bootstrap: str
    prefix: str
    routing_version: int = 0
    partitions: int = 0
    workers: list[str] = field(default_factory=list)
    lag: dict[str, int] = field(default_factory=dict)
    dead_letters: int = 0

    @property
    def trouble(self) -> str | None:
        if not self.routing_version:
            return "no worker has ever run here; start one with `pastforward worker`"
        if not self.workers:
            return "no worker runs; start one with `pastforward worker`"
        return None


def look(settings: Settings, client: Client) -> Status:
    found = Status(version("pastforward"), client.bootstrap_servers, settings.topic_prefix)
    progress = client.workers
    found.routing_version = progress.version()
    names = topics.Topics(settings.topic_prefix, max(1, found.routing_version))
    for name in (names.subscriptions, names.publications, names.rendezvous):
        partitions = client.offsets.partitions(name)
        ends, done = client.offsets.ends(name, partitions), progress.committed(name, partitions)
        # what a mark of a transaction takes is no record, but nobody can tell without reading: one a partition at most
        begins = {p: client.offsets.bounds(name, p)[0] for p in partitions}
        found.lag[name.removeprefix(settings.topic_prefix)] = sum(
            max(0, ends[p] - max(done[p], begins[p])) for p in partitions
        )
        found.partitions = len(partitions)
    letters = client.offsets.partitions(names.dead_letters)
    found.dead_letters = sum(
        end - first for first, end in (client.offsets.bounds(names.dead_letters, p) for p in letters)
    )
    found.workers = _members(settings, client.bootstrap_servers, max(1, found.routing_version))
    return found


def _members(settings: Settings, bootstrap: str, routing_version: int) -> list[str]:
    group = topics.group_of(settings, routing_version)
    admin = topics.quiet_admin(settings, bootstrap)
    try:
        (future,) = admin.describe_consumer_groups([group], request_timeout=ANSWER).values()
        return sorted(f"{member.host.lstrip('/')} {member.client_id}" for member in future.result().members)
    except KafkaException:
        return []  # nobody has ever joined it
