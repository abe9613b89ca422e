"""Ingest, compact and backfill in a process of their own, killed at random moments. What matters is what is there in the end."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import Any

import pytest

from pastforward import broker as embedded
from pastforward import topics
from pastforward.client import Client
from pastforward.schemas import Publication, decode_notification
from pastforward.settings import Settings
from pastforward.spark_batch.backfill import backfill
from pastforward.spark_batch.compact import compact
from pastforward.spark_batch.ingest import ingest
from pastforward.spark_batch.kafka import read_topic
from pastforward.spark_batch.tables import Places, exists, read_publications
from tests.spark_batch.conftest import MakeSettings
from tests.spark_batch.requests import ask

pytestmark = pytest.mark.broker

EACH = 40  # publications before each kill


class Killer:
    """Draws a moment within the time that the jobs took when they last came to their end."""

    def __init__(self, settings: Settings, seed: int) -> None:
        self._flags = {
            name: str(getattr(settings, name))
            for name in ("bootstrap_servers", "topic_prefix", "partitions", "data_dir", "history", "jars_dir")
        }
        self._chance = random.Random(seed)
        self._took: dict[tuple[str, ...], float] = {}
        self.hits: Counter[str] = Counter()

    def kill(self, *jobs: str) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark_batch.victim", json.dumps(self._flags)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # a group of its own: its JVM dies with it
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            process.stdin.write("".join(f"{job}\n" for job in jobs))
            process.stdin.flush()
            started = time.monotonic()
            moment = self._chance.uniform(0, self._took.get(jobs, 4.0 * len(jobs)))
            timer = threading.Timer(moment, os.killpg, (process.pid, signal.SIGKILL))
            timer.start()
            done = sum(process.stdout.readline() == "done\n" for _ in jobs)
            timer.cancel()
            if done == len(jobs):
                self._took[jobs] = time.monotonic() - started
            else:
                self.hits[jobs[done]] += 1
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class Scenario:
    def __init__(self, spark: Any, settings: Settings, bootstrap: str) -> None:
        topics.ensure(settings, topics.connect(settings, bootstrap))
        self.spark, self.settings, self.bootstrap = spark, settings, bootstrap
        self.published = 0
        self.asked: list[int] = []  # for each request, how many publications it is to find

    def publish(self) -> None:
        with Client(settings=self.settings) as client:
            client.publish_many(
                Publication(f"p{n}", topic=f"{n % 3}", published_at=n, attributes={"x": n})
                for n in range(self.published, self.published + EACH)
            )
        self.published += EACH

    def ask(self, upto: int) -> None:
        """A request for the publications below a number, all of which came before its cut."""
        number = len(self.asked)
        ask(self.settings, f"s{number}", {0: upto - 1}, f"x >= {number}")
        self.asked.append(upto - number)

    def rows(self) -> list[str]:
        found = read_publications(self.spark, Places(self.settings.history))
        rows = found.select("publication_id", "partition", "offset").collect()
        assert len({(row["partition"], row["offset"]) for row in rows}) == len(rows)
        return sorted(row["publication_id"] for row in rows)

    def check(self) -> None:
        ingest(self.spark, self.settings, quiet=True)
        compact(self.spark, self.settings, vacuum_hours=None, quiet=True)
        assert self.rows() == sorted(f"p{n}" for n in range(self.published))
        backfill(self.spark, self.settings, quiet=True)
        messages = read_topic(self.settings, self.bootstrap, f"{self.settings.topic_prefix}notifications")
        found = [decode_notification(m.value()) for m in messages]
        assert Counter(n.subscription_id for n in found) == {f"s{n}": count for n, count in enumerate(self.asked)}
        assert len({n.notification_id for n in found}) == len(found)


def make(history: MakeSettings, broker: embedded.Broker, prefix: str) -> Settings:
    return history(bootstrap_servers=broker.bootstrap, topic_prefix=prefix, partitions=1)


def test_a_kill_somewhere_in_all_three(spark: Any, broker: embedded.Broker, history: MakeSettings) -> None:
    settings = make(history, broker, "kill.")
    scenario = Scenario(spark, settings, broker.bootstrap)
    scenario.publish()
    scenario.ask(EACH)
    Killer(settings, time.time_ns()).kill("ingest", "compact", "backfill")
    scenario.check()


@pytest.mark.soak
@pytest.mark.parametrize("job", ["ingest", "compact", "backfill"])
def test_twenty_kills(spark: Any, broker: embedded.Broker, history: MakeSettings, job: str) -> None:
    settings = make(history, broker, f"kills-{job}.")
    scenario = Scenario(spark, settings, broker.bootstrap)
    killer = Killer(settings, 2)
    while killer.hits[job] < 20:
        scenario.publish()
        if job != "ingest":
            ingest(spark, settings, quiet=True)
        if job == "backfill":
            scenario.ask(scenario.published)
        killer.kill(job)
        if exists(spark, Places(settings.history).publications):
            assert set(scenario.rows()) <= {f"p{n}" for n in range(scenario.published)}
    scenario.check()
