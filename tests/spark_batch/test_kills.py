"""Ingest, compact and backfill as processes of their own, killed at random moments. What matters is what is there in the end."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import Any

import pytest

from pastforward import broker as embedded
from pastforward import topics
from pastforward.cli.options import as_flags
from pastforward.client import Client
from pastforward.settings import Settings
from schemas import Publication, decode_notification
from spark_batch.backfill import backfill
from spark_batch.compact import compact
from spark_batch.ingest import ingest
from spark_batch.kafka import read_topic
from spark_batch.tables import Places, read_publications
from tests.spark_batch.conftest import MakeSettings
from tests.spark_batch.requests import ask

pytestmark = pytest.mark.broker

LATEST = 30.0  # seconds until a kill: a job that is done by then was not hit, which is a moment too
EACH = 40  # publications before each kill


def kill(settings: Settings, chance: random.Random, job: str, *flags: str) -> None:
    """Starts a command and kills it, its JVM and its workers with it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pastforward", "history", job, *as_flags(settings), *flags],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + chance.uniform(0.3, 1.0) * LATEST
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def scenario(spark: Any, settings: Settings, bootstrap: str, kills: int, seed: int) -> None:
    topics.ensure(settings, topics.connect(settings, bootstrap))
    chance = random.Random(seed)
    published = 0

    def publish() -> None:
        nonlocal published
        with Client(settings=settings) as client:
            client.publish_many(
                Publication(f"p{n}", topic=f"{n % 3}", published_at=n, attributes={"x": n})
                for n in range(published, published + EACH)
            )
        published += EACH

    def table() -> list[tuple[str, int]]:
        rows = (
            read_publications(spark, Places(settings.history)).select("publication_id", "partition", "offset").collect()
        )
        assert len({(row["partition"], row["offset"]) for row in rows}) == len(rows)
        return sorted((row["publication_id"], row["offset"]) for row in rows)

    for _ in range(kills):
        publish()
        kill(settings, chance, "ingest")
    ingest(spark, settings, quiet=True)
    kept = table()
    assert sorted(name for name, _ in kept) == sorted(f"p{n}" for n in range(published))

    for _ in range(kills):
        kill(settings, chance, "compact", "--no-vacuum")
    compact(spark, settings, vacuum_hours=None, quiet=True)
    assert table() == kept

    cut = max(offset for _, offset in kept)
    for number in range(kills):
        ask(settings, f"s{number}", {0: cut}, f"x >= {number}")
        kill(settings, chance, "backfill")
    backfill(spark, settings, quiet=True)
    found = [
        decode_notification(m.value()) for m in read_topic(settings, bootstrap, f"{settings.topic_prefix}notifications")
    ]
    assert Counter(n.subscription_id for n in found) == {f"s{n}": published - n for n in range(kills)}
    assert len({n.notification_id for n in found}) == len(found)


def test_one_kill_of_each(spark: Any, broker: embedded.Broker, history: MakeSettings) -> None:
    settings = history(bootstrap_servers=broker.bootstrap, topic_prefix="kill.", partitions=1)
    scenario(spark, settings, broker.bootstrap, 1, 1)


@pytest.mark.soak
def test_twenty_kills_of_each(spark: Any, broker: embedded.Broker, history: MakeSettings) -> None:
    settings = history(bootstrap_servers=broker.bootstrap, topic_prefix="kills.", partitions=1)
    scenario(spark, settings, broker.bootstrap, 20, 2)
