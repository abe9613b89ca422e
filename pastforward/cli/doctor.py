"""`pastforward doctor`: each setting with its source, and whether everything needed is there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import click
from rich.console import Console
from rich.table import Table

from pastforward import broker, settings, topics
from pastforward.cli.options import WORKER, with_settings
from pastforward.errors import UserError
from pastforward.redaction import HIDDEN, is_secret, without_credentials
from pastforward.settings import Settings

JAVA: Final = 17  # Kafka 4 and Spark 4 need it
DISK: Final = 1 << 30  # below a gigabyte free, a broker and its workers are soon in trouble


class Check(NamedTuple):
    name: str
    fine: bool
    found: str


def _java(chosen: Settings) -> str:
    path = broker.java()
    said = subprocess.run([path, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', said)
    if not version or int(version[1]) < JAVA:
        raise UserError(f"{path} is {said.splitlines()[0] if said else 'unknown'}; install Java {JAVA} or later")
    return f"{version[1]} at {path}"


def _jars(of: str) -> Callable[[Settings], str]:
    return lambda chosen: f"{len(broker.jars(chosen, of))} in {chosen.jars_dir / of}"


def _bootstrap(chosen: Settings) -> str:
    if chosen.bootstrap_servers:
        return chosen.bootstrap_servers
    running = broker.find(chosen)
    if running is None:
        raise UserError("none is set and no embedded one runs; `pastforward up` starts it")
    return running.bootstrap


def _broker(chosen: Settings) -> str:
    bootstrap = _bootstrap(chosen)
    topics.connect(chosen, bootstrap)
    return f"answers at {bootstrap}"


def _topics(chosen: Settings) -> str:
    there = topics.existing(topics.connect(chosen, _bootstrap(chosen)))
    missing = [plan.name for plan in topics.plan(chosen) if plan.name not in there]
    if missing:
        raise UserError(f"missing: {', '.join(missing)}; `pastforward topics` creates them")
    return f"all there, {there[topics.Topics(chosen.topic_prefix).rendezvous]} partitions"


def _disk(chosen: Settings) -> str:
    place = Path(chosen.data_dir).absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < DISK:
        raise UserError(f"only {free / 1e6:.0f} MB free at {place}; make room, or set DATA_DIR elsewhere")
    return f"{free / 1e9:.1f} GB free at {place}"


CHECKS: Final = {
    "java": _java,
    "jars of kafka": _jars("kafka"),
    "jars of spark": _jars("spark"),
    "broker": _broker,
    "topics": _topics,
    "disk": _disk,
}


def examine(chosen: Settings) -> list[Check]:
    checks = []
    for name, look in CHECKS.items():
        try:
            checks.append(Check(name, True, look(chosen)))
        except UserError as error:
            checks.append(Check(name, False, str(error)))
    return checks


def show_settings(chosen: Settings) -> list[tuple[str, str, str]]:
    """Name, value and source; secrets are not shown."""
    rows = []
    for name, field in settings.KNOWN.items():
        value = getattr(chosen, name)
        text = "" if value is None else field.metadata["show"](value)
        rows.append((name.upper(), without_credentials(text), chosen.sources[name]))
    for name, value in chosen.kafka.items():
        shown = HIDDEN if is_secret(name) else without_credentials(value)
        rows.append((f"KAFKA {name}", shown, chosen.sources[f"kafka.{name}"]))
    return rows


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
@with_settings(*WORKER)
def doctor(chosen: Settings, as_json: bool) -> None:
    """Show each setting with its source, and check Java, jars, broker, topics and disk.

    \b
    Example: pastforward doctor
    """
    checks = examine(chosen)
    rows = show_settings(chosen)
    if as_json:
        found = {"settings": [dict(zip(("name", "value", "source"), row, strict=True)) for row in rows]}
        click.echo(json.dumps({**found, "checks": [check._asdict() for check in checks]}))
    else:
        console = Console()
        table = Table("setting", "value", "from")
        for row in rows:
            table.add_row(*row)
        console.print(table)
        for check in checks:
            mark = "[green]✓[/]" if check.fine else "[red]✗[/]"
            console.print(
                mark, f"{check.name}: {check.found}", highlight=False, soft_wrap=True
            )  # it may name a command
    sys.exit(0 if all(check.fine for check in checks) else 1)
