"""`pastforward status` and `down`: what runs here, how far it has come, and its end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from dataclasses import asdict
from typing import Final

import click
from rich.console import Console

from pastforward import broker, running
from pastforward.cli.options import CONNECTION, open_client, with_settings
from pastforward.client.status import Status, look
from pastforward.errors import UserError
from pastforward.settings import Settings

PATIENCE: Final = 60.0  # seconds until a process that was told to end has ended


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
