"""Commands that run something: the broker, a worker, or both."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table

from pastforward import broker as embedded
from pastforward import topics as topics_module
from pastforward.cli.beside import beside, with_console_options
from pastforward.cli.options import CONNECTION, WORKER, as_flags, with_settings
from pastforward.cli.setup import prepare_broker
from pastforward.errors import UserError
from pastforward.preparation import kernels
from pastforward.running import disown, is_ours, own, owner_of, web_of, worker_of
from pastforward.settings import Settings

READY_TIMEOUT: Final = 120.0  # seconds; a large local state is read first
console = Console(stderr=True)


class Stopped(Exception):
    """SIGTERM or Ctrl-C."""


@contextmanager
def stoppable() -> Iterator[None]:
    """Turns SIGTERM, SIGINT and the end of the terminal into an exception, so that everything started is stopped on the way out."""
    ends = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup sets it
        ends.append(signal.SIGHUP)

    def stop(number: int, frame: FrameType | None) -> None:
        # once is enough: a second signal must not interrupt the stopping
        for each in ends:
            signal.signal(each, signal.SIG_IGN)
        raise Stopped

    before = [signal.signal(s, stop) for s in ends]
    try:
        yield
    except Stopped:
        pass
    finally:
        for number, handler in zip(ends, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def kafka(
    settings: Settings, port: int | None = None, *, adopt: bool = False
) -> Iterator[tuple[str, embedded.Broker | None]]:
    """The brokers to use: those of the settings, or an embedded one, stopped at the end if it was started or adopted here."""
    if settings.bootstrap_servers:
        yield settings.bootstrap_servers, None
        return
    prepare_broker(settings, console)
    with console.status("starting Kafka"):
        running = embedded.start(settings, port)
    adopted = adopt and not running.started and owner_of(settings) is None
    if not running.started:
        mine = "it ends with this command" if adopted else "somebody else looks after it"
        console.print(f"an embedded broker runs already (process {running.pid}): {mine}", highlight=False)
    try:
        yield running.bootstrap, running
    finally:
        if running.started or adopted:
            running.stop()


def wait_ready(check: Callable[[], None], ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + READY_TIMEOUT
    while time.monotonic() < deadline:
        check()
        if ready():
            return
        time.sleep(0.1)
    raise UserError(f"the worker is not ready after {READY_TIMEOUT:.0f} s; see its messages above")


def is_ready(settings: Settings, pid: int) -> bool:
    web = web_of(settings, pid)
    if web is None:
        return False
    try:
        with urllib.request.urlopen(f"{web}/ready", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:  # not yet
        return False


class WorkerProcess:
    """A worker in a process of its own, with the same settings."""

    def __init__(self, settings: Settings, bootstrap: str) -> None:
        flags = as_flags(settings, bootstrap_servers=bootstrap)
        self._settings = settings
        # a session of its own: Ctrl-C reaches us, and we stop it in order
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pastforward", "worker", "--no-status", *flags],
            start_new_session=True,
            stdout=subprocess.DEVNULL,
        )

    def check(self) -> None:
        if self._process.poll() is not None:
            raise UserError(f"the worker has ended with code {self._process.returncode}; its messages are above")

    def wait_ready(self) -> None:
        wait_ready(self.check, lambda: is_ready(self._settings, self._process.pid))

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


class AdoptedWorker:
    """A worker that an earlier command has left behind."""

    def __init__(self, settings: Settings, pid: int) -> None:
        self._settings, self._pid = settings, pid

    def check(self) -> None:
        if not is_ours(self._pid):
            raise UserError(f"the worker that ran already (process {self._pid}) has ended; start again")

    def wait_ready(self) -> None:
        wait_ready(self.check, lambda: is_ready(self._settings, self._pid))

    def stop(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGTERM)
        deadline = time.monotonic() + 30
        while is_ours(self._pid):
            if time.monotonic() > deadline:
                os.kill(self._pid, signal.SIGKILL)
            time.sleep(0.05)


def start_worker(settings: Settings, bootstrap: str, adopt: bool) -> WorkerProcess | AdoptedWorker:
    pid = worker_of(settings) if adopt else None
    if pid is None:
        return WorkerProcess(settings, bootstrap)
    console.print(f"a worker runs already (process {pid}): it ends with this command", highlight=False)
    return AdoptedWorker(settings, pid)


@contextmanager
def system(
    settings: Settings, port: int | None = None, *, adopt: bool = False
) -> Iterator[tuple[str, WorkerProcess | AdoptedWorker, embedded.Broker | None]]:
    """Broker, topics and a ready worker. `adopt`: what an earlier command has left behind in the data directory is taken over."""
    kernels.prepare(console)
    with kafka(settings, port, adopt=adopt) as (bootstrap, running):
        topics_module.ensure(settings, topics_module.connect(settings, bootstrap))
        process = start_worker(settings, bootstrap, adopt)
        try:
            with console.status("starting a worker"):
                process.wait_ready()
            yield bootstrap, process, running
        finally:
            process.stop()


@contextmanager
def owned(settings: Settings, command: str) -> Iterator[None]:
    """While it is so, another command knows that somebody looks after what runs here."""
    if owner_of(settings) is None:
        own(settings, command)
    try:
        yield
    finally:
        disown(settings)


def announce(bootstrap: str) -> None:
    click.echo(f"bootstrap.servers={bootstrap}")
    sys.stdout.flush()


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the embedded broker; a free one if left out.")
@with_console_options
@with_settings(*WORKER)
def up(settings: Settings, port: int | None, console_port: int | None, with_console: bool) -> None:
    """Start broker, topics and a worker; print bootstrap.servers=HOST:PORT once ready.

    With it comes the console in the browser, if it is installed; console=URL is printed when it is ready.

    What an earlier one has left behind in the data directory is taken over. It all ends with this command, or its terminal.

    \b
    Example: pastforward up --partitions 8 --hot-window 10m
    """
    other = owner_of(settings)
    if other is not None and other[0] == "up":
        raise UserError(
            f"`pastforward up` runs already in {settings.data_dir} (process {other[1]}); `pastforward down` ends it"
        )
    with stoppable(), owned(settings, "up"), system(settings, port, adopt=True) as (bootstrap, process, running):
        announce(bootstrap)
        with beside(settings, bootstrap, console_port, with_console):
            while True:
                process.check()
                if running:
                    running.check()
                time.sleep(0.5)


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the broker; a free one if left out.")
@with_settings("data_dir", "jars_dir", "maven_repository", "bootstrap_servers")
def broker(settings: Settings, port: int | None) -> None:
    """Start the embedded Kafka broker; print bootstrap.servers=HOST:PORT once ready.

    \b
    Example: pastforward broker --port 9092
    """
    with stoppable(), kafka(settings, port) as (bootstrap, running):
        announce(bootstrap)
        if running is None or not running.started:
            return
        with owned(settings, "broker"):
            while True:
                running.check()
                time.sleep(0.5)


@click.command()
@with_settings(*CONNECTION, "partitions", "hot_window", "jars_dir", "maven_repository")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def topics(settings: Settings, as_json: bool) -> None:
    """Create the topics that are missing, and list all.

    \b
    Example: pastforward topics --partitions 16
    """
    with stoppable(), kafka(settings) as (bootstrap, _):
        admin = topics_module.connect(settings, bootstrap)
        _, created = topics_module.ensure(settings, admin)
        there = topics_module.existing(admin)
        rows = [
            {"topic": p.name, "partitions": there.get(p.name, 0), "created": p.name in created, "config": p.config}
            for p in topics_module.plan(settings)
        ]
    if as_json:
        click.echo(json.dumps(rows))
        return
    table = Table("topic", "partitions", "", "kept")
    for row in rows:
        table.add_row(
            str(row["topic"]), str(row["partitions"]), "created" if row["created"] else "", _kept(row["config"])
        )
    Console().print(table)


def _kept(config: Any) -> str:
    days = int(config.get("retention.ms", 0)) / topics_module.DAY_MS
    return "compacted" if config["cleanup.policy"] == "compact" else f"{days:g} days"


@click.command()
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", help="Of the log on standard error.")
@click.option("--status/--no-status", default=None, help="A line with rates; by default on a terminal.")
@with_settings(*WORKER)
def worker(settings: Settings, log_format: str, status: bool | None) -> None:
    """Run one worker: router and matcher, for its share of the partitions.

    \b
    Example: pastforward worker --bootstrap-servers kafka:9092 --data-dir /var/lib/pastforward
    """
    from pastforward.streams.worker.process import run_worker

    bootstrap = embedded.bootstrap_of(settings)
    kernels.prepare(console)
    terminal = sys.stderr.isatty() and log_format == "text"
    status = terminal if status is None else status
    _log(log_format, over="\r\x1b[2K" if status else "")
    count, _ = topics_module.ensure(settings, topics_module.connect(settings, bootstrap))
    run_worker(settings, bootstrap, count, status=status)


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line)


def _log(form: str, over: str = "") -> None:
    """`over`: what a message begins with, to be written over the status line."""
    handler = logging.StreamHandler(sys.stderr)
    plain = logging.Formatter(over + "%(asctime)s %(levelname)s %(name)s: %(message)s", "%H:%M:%S")
    handler.setFormatter(_JsonLines() if form == "json" else plain)
    level = os.environ.get("LOGLEVEL", "WARNING").upper()
    if level not in logging.getLevelNamesMapping():
        raise UserError(f"LOGLEVEL is {level!r}; write one of: DEBUG, INFO, WARNING, ERROR")
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("pastforward").setLevel("INFO")
    # a broker that still writes the last transaction's marker says "again": that is no warning
    logging.getLogger("aiokafka").setLevel("ERROR")
