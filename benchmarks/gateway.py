"""The gateway: thousands of connections that listen, notifications a second through one process, and how long one is on its way.

`python -m pastforward.benchmarks gateway`; `--clients`, `--rate` and `--seconds` set how many. Two loads on a broker of their own:
- `fan-out`: notifications are written to their topic by a process of its own, and each has one listener among all;
- `publish to browser`: publications are sent to a worker, and a listener has each as a notification.
Figures are wall clock, with the processor time of the gateway beside them: on a machine with other things to do only that is comparable.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from pastforward import broker, topics
from pastforward.client import Client
from pastforward.schemas import Content, Notification, encode
from pastforward.schemas.avro_plain import write_long
from pastforward.settings import Settings, load

SILENCE = 2.0  # seconds without a notification: then all have come
BROWSERS = 100  # that the publications are spread over
STEP = 0.02  # seconds between two batches of a sender
RESIDENT = 1 << 20
STAMP = {"fan-out": re.compile(rb'"matched_at":(\d+)'), "publish": re.compile(rb'"published_at":(\d+)')}


class Listening(asyncio.Protocol):
    """One connection: an HTTP request, then the stamps of all that comes."""

    def __init__(self, recipient: str, stamp: re.Pattern[bytes], latencies: list[float]) -> None:
        self._request = f"GET /v1/notifications?recipient={recipient} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
        self._stamp, self._latencies = stamp, latencies
        self._rest = b""
        self.open = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(self._request.encode())  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        if not self.open.done() and b"id: " in data:
            self.open.set_result(None)
        now = time.time()
        text = self._rest + data
        end = 0
        for found in self._stamp.finditer(text):
            self._latencies.append(now - int(found[1]) / 1e6)
            end = found.end()
        self._rest = text[max(end, len(text) - 40) :]


async def _listen(port: int, recipients: list[str], kind: str, ready: Any, ended: Any, out: Any) -> None:
    loop = asyncio.get_running_loop()
    latencies: list[float] = []
    protocols = []
    for begin in range(0, len(recipients), 100):
        made = [
            loop.create_connection(lambda r=name: Listening(r, STAMP[kind], latencies), "127.0.0.1", port)  # type: ignore[misc]
            for name in recipients[begin : begin + 100]
        ]
        protocols += [protocol for _, protocol in await asyncio.gather(*made)]
        await asyncio.gather(*(each.open for each in protocols[begin:]))
    ready.set()
    await asyncio.to_thread(ended.wait)
    known = -1
    while known != len(latencies):  # until nothing more comes
        known = len(latencies)
        await asyncio.sleep(SILENCE)
    out.put(latencies)


def _listener(port: int, recipients: list[str], kind: str, ready: Any, ended: Any, out: Any) -> None:
    import resource

    import uvloop

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    uvloop.run(_listen(port, recipients, kind, ready, ended, out))


def _send_notifications(settings: Settings, bootstrap: str, recipients: list[str], rate: int, seconds: float) -> None:
    """At a steady rate, each to the next recipient."""
    topic = topics.Topics(settings.topic_prefix).notifications
    content = Content({"kind": "accident", "severity": 4, "lane": 2, "speed": 41.5})
    then = time.time_ns() // 1000
    record = Notification("0" * 32, "s", "0-0", "p", "r", "subscriber", "1.4", 5, then, "live", content=content)
    # encoding each would take the processor from what is measured: only the moment is written anew, whose bytes are as many
    before, after = encode(record).split(_avro(then))
    with Client(bootstrap, settings=settings) as client:
        number, began = 0, time.time()
        while (passed := time.time() - began) < seconds:
            many = int(passed * rate) - number
            value = before + _avro(time.time_ns() // 1000) + after
            client._send(topic, [(recipients[(number + n) % len(recipients)], value) for n in range(many)])
            number += many
            time.sleep(STEP)


def _avro(number: int) -> bytes:
    out = bytearray()
    write_long(number, out)
    return bytes(out)


def _publish(settings: Settings, bootstrap: str, recipients: list[str], rate: int, seconds: float) -> None:
    with Client(bootstrap, settings=settings) as client:
        number, began = 0, time.time()
        while (passed := time.time() - began) < seconds:
            records = []
            for _ in range(int(passed * rate) - number):
                number += 1
                now = time.time_ns() // 1000
                topic = f"1.{number % len(recipients)}"
                records.append({"topic": topic, "published_at": now, "attributes": {"severity": 4, "kind": "accident"}})
            client.publish_many(records)
            time.sleep(STEP)


def _processor(pid: int) -> tuple[float, float]:
    """Seconds of processor time, and MiB resident."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    ticks = os.sysconf("SC_CLK_TCK")
    return (int(fields[11]) + int(fields[12])) / ticks, pages * os.sysconf("SC_PAGE_SIZE") / RESIDENT


@contextmanager
def _process(settings: Settings, bootstrap: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    flags = (
        "--bootstrap-servers",
        bootstrap,
        "--topic-prefix",
        settings.topic_prefix,
        "--data-dir",
        str(settings.data_dir),
    )
    command = [sys.executable, "-P", "-m", "pastforward", *words, *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def _port(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline().strip().rpartition(":")[2])


def run_load(
    settings: Settings, bootstrap: str, kind: str, recipients: list[str], rate: int, seconds: float
) -> list[tuple[str, str]]:
    spawn = multiprocessing.get_context("spawn")
    with _process(settings, bootstrap, "serve", "--port", "0") as gateway:
        port = _port(gateway)
        ready, ended, out = spawn.Event(), spawn.Event(), spawn.Queue()
        listener = spawn.Process(target=_listener, args=(port, recipients, kind, ready, ended, out))
        listener.start()
        connected = time.perf_counter()
        ready.wait(120)
        connected = time.perf_counter() - connected
        before, _ = _processor(gateway.pid)
        send = _send_notifications if kind == "fan-out" else _publish
        sender = spawn.Process(target=send, args=(settings, bootstrap, recipients, rate, seconds))
        sender.start()
        sender.join()
        ended.set()
        latencies = sorted(out.get(timeout=120))
        used, resident = _processor(gateway.pid)
        listener.join()
    if not latencies:
        return [(f"{kind}: nothing came", "")]
    count = len(latencies)
    return [
        (f"{kind}: connections", f"{len(recipients):,}, open after {connected:.1f} s"),
        (f"{kind}: notifications delivered", f"{count:,}, asked for {rate:,} a second in {seconds:g} s"),
        (
            f"{kind}: latency p50 / p99",
            f"{latencies[count // 2] * 1000:.0f} / {latencies[int(count * 0.99)] * 1000:.0f} ms",
        ),
        (f"{kind}: processor time of the gateway", f"{(used - before) / count * 1e6:.0f} us a notification"),
        (f"{kind}: memory of the gateway", f"{resident:,.0f} MiB"),
    ]


def _browsers(settings: Settings, bootstrap: str, count: int, rate: int, seconds: float) -> list[tuple[str, str]]:
    """With a worker between."""
    recipients = [f"b{number}" for number in range(count)]
    with _process(settings, bootstrap, "worker", "--no-status", "--web-port", "0"):
        with Client(bootstrap, settings=settings) as client:
            handles = client.subscribe_many(
                {"subscriber_id": name, "topic": f"1.{number}", "scope": "subtree"}
                for number, name in enumerate(recipients)
            )
            handles[-1].wait(120)
        return run_load(settings, bootstrap, "publish", recipients, rate, seconds)


@click.command()
@click.option("--clients", default=5000, show_default=True)
@click.option("--rate", default=20_000, show_default=True, help="Notifications a second of the fan-out.")
@click.option("--publications", default=1000, show_default=True, help="Publications a second of the other load.")
@click.option("--seconds", default=15.0, show_default=True)
def main(clients: int, rate: int, publications: int, seconds: float) -> None:
    chosen = load()
    with tempfile.TemporaryDirectory() as folder:
        settings = load({"data_dir": folder, "jars_dir": chosen.jars_dir, "topic_prefix": "bench-gateway."})
        running = None if settings.bootstrap_servers else broker.start(settings)
        bootstrap = settings.bootstrap_servers or (running.bootstrap if running else "")
        try:
            topics.ensure(settings, topics.connect(settings, bootstrap))
            recipients = [f"r{number}" for number in range(clients)]
            rows = run_load(settings, bootstrap, "fan-out", recipients, rate, seconds) if rate else []
            if publications:
                rows += _browsers(settings, bootstrap, BROWSERS, publications, seconds)
        finally:
            if running is not None:
                running.stop()
    table = Table("the gateway", "")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    main()
