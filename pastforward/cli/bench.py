"""`pastforward bench …`: the figures that the documents state."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Final

import click

from pastforward.cli.suggest import Commands
from pastforward.columns import extras

MODULES: Final = {
    "codecs": "Encoding and decoding: ours, fastavro, apache avro.",
    "conditions": "Parsing conditions: a known shape, a new one, the structured form.",
    "matching": "The index against the clock: equality-led, range-led, PUBSUB's mix, churn.",
    "state": "The store: flat cells, quad tree, self-joins, a small budget.",
    "client": "The client: writing and reading against a bare client.",
    "gateway": "The gateway: connections that listen, notifications a second, publish to browser.",
    "stream": "A broker and a worker: publications, drivers, latency, recovery.",
    "routing": "Lo and Chiu's experiments A to F, and the cost of a routing decision.",
    "rendezvous": "The routing schemes on a broker with 16 partitions; a change of the routing under traffic.",
    "papers": "Every figure of the five papers, contenders side by side; FIGURE … and --scale quick or full.",
    "history": "Spark: ingest, compaction, backfill.",
}


@click.group(cls=Commands)
def bench() -> None:
    """Measure. Each figure is a table and a plot.

    \b
    Example: pastforward bench codecs
    """


def _run(name: str, arguments: tuple[str, ...]) -> int:
    """A process of its own: figures of memory are then its own too. It stops what it has started, and is waited for."""
    extras.need("bench", "`pastforward bench`")
    process = subprocess.Popen([sys.executable, "-P", "-m", "pastforward.benchmarks", name, *arguments])
    before = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue  # it has got the key press, too
    finally:
        signal.signal(signal.SIGTERM, before)


def _add(name: str, text: str) -> None:
    @bench.command(
        name,
        help=f"{text} `pastforward bench {name} -- --help` lists its own options.\n\n\\b\nExample: pastforward bench {name}",
        context_settings={"ignore_unknown_options": True},
    )
    @click.argument("arguments", nargs=-1)
    def run(arguments: tuple[str, ...]) -> None:
        sys.exit(_run(name, arguments))


for _name, _text in MODULES.items():
    _add(_name, _text)


@bench.command("all")
def everything() -> None:
    """All of them, one after the other.

    \b
    Example: pastforward bench all
    """
    failed = []
    for name in MODULES:
        code = _run(name, ())
        if code in (130, 128 + signal.SIGTERM):
            sys.exit(code)
        if code:
            failed.append(name)
    if failed:
        click.echo(f"failed: {', '.join(failed)}", err=True)
    sys.exit(bool(failed))
