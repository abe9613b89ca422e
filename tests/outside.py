"""The system as others see it: confluent-kafka and JSON, nothing of ours."""

from __future__ import annotations

import json
import signal
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from pastforward.broker import any_port
from pastforward.topics import arrived
from tests.forks import Forked

READ = ("notifications", "dead-letters", "rendezvous", "backfill-requests", "best-offers")
PATIENCE = 60.0  # seconds until something that must come has not come


class WorkerUnderTest:
    """A worker process. Its messages go to a file, and into the failure of a test."""

    def __init__(self, bootstrap: str, settings: dict[str, str], prepare: Callable[[], None] | None = None) -> None:
        self.port = any_port()
        settings = {"bootstrap_servers": bootstrap, "web_port": str(self.port), **settings}
        flags = [part for name, value in settings.items() if value for part in ("--" + name.replace("_", "-"), value)]
        self.log = Path(settings["data_dir"]) / "worker.log"
        self.process = Forked(["worker", *flags], (self.log, self.log), prepare=prepare)

    def said(self) -> str:
        return self.log.read_text("utf-8", "replace") if self.log.exists() else ""

    def fate(self) -> str:
        return f"{self.said()}(exit code {self.process.poll()})"

    def wait_said(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while text not in self.said():
            assert self.process.poll() is None, f"the worker ended with {self.process.returncode}:\n{self.said()}"
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.05)

    def wait_ready(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            assert self.process.poll() is None, f"the worker ended with {self.process.returncode}:\n{self.said()}"
            if self.get("ready")[0] == 200:
                return
            time.sleep(0.05)
        raise AssertionError(f"the worker is not ready:\n{self.said()}")

    def get(self, page: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{page}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGUSR1)  # it says what all its tasks wait for
                time.sleep(2)
                self.kill()
        return int(self.process.returncode)


class Outside:
    """Produces JSON and collects what comes out. Everything read is kept, so no test depends on the order of tests."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self.bootstrap, self.prefix = bootstrap, prefix
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "compression.type": "zstd",
                "message.max.bytes": 4 << 20,
            }
        )
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": uuid.uuid4().hex,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        self._consumer.assign(
            [
                TopicPartition(prefix + name, partition, 0)
                for name in READ
                for partition in self._consumer.list_topics(prefix + name).topics[prefix + name].partitions
            ]
        )
        self.records: dict[str, list[Any]] = {name: [] for name in READ}
        self._subscribed: set[str | bytes] = set()

    def send(self, topic: str, key: str | bytes | None, value: Any, **more: Any) -> None:
        """`value`: None, bytes as they are, anything else as JSON. Returns when the broker has it."""
        if topic == "subscriptions" and key:
            self._subscribed.add(key)
        failed = []
        self._producer.produce(
            self.prefix + topic,
            key=key,
            value=value if value is None or isinstance(value, bytes) else json.dumps(value),
            on_delivery=lambda error, _: failed.append(error) if error else None,
            **more,
        )
        assert self._producer.flush(PATIENCE) == 0
        assert not failed, failed

    def subscribe(self, name: str, **fields: Any) -> None:
        self.send("subscriptions", name, {"subscriber_id": f"{name}'s", **fields})

    def publish(self, name: str, **fields: Any) -> None:
        self.send("publications", name, fields)

    def wait(self, topic: str, enough: Callable[[Any], bool], count: int = 1) -> list[Any]:
        """All records of a topic for which `enough` holds, once there are `count` of them."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = [record for record in self.records[topic] if enough(record)]
            if len(found) >= count:
                return found
            assert time.monotonic() < deadline, f"{len(found)} of {count} records came: {found}"
            self._poll()

    def _poll(self) -> None:
        for message in arrived(self._consumer, 1000, 0.1):
            assert message.error() is None, message.error()
            self.records[message.topic().removeprefix(self.prefix)].append(message)

    def notified(self, name: str, count: int = 1, of: str = "") -> list[dict[str, Any]]:
        """The notifications of a subscription, of publications whose id begins so."""

        def wanted(message: Any) -> bool:
            content = json.loads(message.value())
            return bool(content["subscription_id"] == name and content["publication_id"].startswith(of))

        return [json.loads(message.value()) for message in self.wait("notifications", wanted, count)]

    def stored(self, name: str, count: int = 1) -> None:
        """Waits until the router has put the record of that key into the rendezvous log, so that what is sent next comes later."""
        self.wait("rendezvous", lambda m: m.key() == name.encode(), count)

    def routed(self, name: str) -> None:
        """As `stored`, for a record that may also be refused."""
        deadline = time.monotonic() + PATIENCE
        while not any(
            m.key() == name.encode() for topic in ("rendezvous", "dead-letters") for m in self.records[topic]
        ):
            assert time.monotonic() < deadline, f"{name} did not come"
            self._poll()

    def settle(self, topic: str) -> None:
        """Waits until everything that was routed to the partition of a topic has been matched."""
        name = uuid.uuid4().hex
        self.subscribe(name, topic=topic)
        self.stored(name)
        self.publish(f"{name}-p", topic=topic)
        self.notified(name)

    def leave(self) -> None:
        """Withdraws all that was subscribed: another test shares the system, and a subscription to everything would bid in its auctions."""
        for key in self._subscribed.copy():
            self.send("subscriptions", key, None)
        self._subscribed.clear()

    def close(self) -> None:
        self._consumer.close()
