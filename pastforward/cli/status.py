"""`pastforward status` and `down`: what runs here, how far it has come, and its end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Final

import click
from confluent_kafka import KafkaException
from rich.console import Console

from pastforward import broker, running, topics
from pastforward.cli.options import CONNECTION, open_client, with_settings
from pastforward.client import Client
from pastforward.errors import UserError
from pastforward.settings import Settings

PATIENCE: Final = 60.0  # seconds until a process that was told to end has ended
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


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
@with_settings(*CONNECTION)
def status(settings: Settings, as_json: bool) -> None:
    """Show the broker, the workers and how far they are behind. Exit code 3 if no worker runs.

    \b
    Example: pastforward status
    """
    with open_client(settings) as client:
        found = look(settings, client)
    if as_json:
        click.echo(json.dumps(asdict(found)))
    else:
        _print(found)
    if found.trouble:
        sys.exit(3)


def _print(found: Status) -> None:
    say = Console(highlight=False, soft_wrap=True).print
    say(f"pastforward {found.version}, broker {found.bootstrap}, topics {found.prefix}…, {found.partitions} partitions")
    if found.routing_version:
        say(f"routing version {found.routing_version}")
    for worker in found.workers:
        say(f"worker {worker}")
    behind = ", ".join(f"{count:,} {name}" for name, count in found.lag.items())
    say(f"still to read: {behind}")
    say(f"dead letters kept: {found.dead_letters:,}")
    if found.trouble:
        say(f"[yellow]{found.trouble}[/]")


@click.command()
@with_settings("data_dir")
def down(settings: Settings) -> None:
    """End what `up` or `broker` has started in this data directory: worker and broker.

    \b
    Example: pastforward down
    """
    ended = []
    for name, pid in running.processes(settings).items():
        if running.is_ours(pid):  # it has perhaps ended with the one before it
            _end(name, pid)
        ended.append(name)
    left = broker.find(settings)
    if left is not None:
        left.stop()
        ended.append("the embedded broker")
    if not ended:
        raise UserError(f"nothing runs in {settings.data_dir.absolute()}")
    click.echo(f"ended {', '.join(ended)}")


def _end(name: str, pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE
    while running.is_ours(pid):
        if time.monotonic() > deadline:
            raise UserError(f"{name} (process {pid}) has not ended after {PATIENCE:.0f} s; kill -9 {pid} ends it")
        time.sleep(0.05)
