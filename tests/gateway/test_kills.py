"""A browser that listens while worker, broker and gateway are killed in turn: it connects again by itself, and has missed nothing."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from pastforward.client import Client
from pastforward.settings import load
from tests.conftest import OwnBroker, StartWorker
from tests.gateway import browser
from tests.gateway.conftest import Served
from tests.outside import PATIENCE

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(
        browser.executable() is None, reason="no browser: install one (Debian: apt-get install chromium)"
    ),
]
PREFIX = "kills."
LISTEN = """() => {
  window.got = [];
  const source = new EventSource("/v1/notifications?recipient=anna&since=-10m");
  source.onmessage = (event) => window.got.push(JSON.parse(event.data).publication_id);
}"""


@pytest.mark.timeout(240)
def test_a_listening_browser_misses_nothing(own_broker: OwnBroker, start_worker: StartWorker, tmp_path: Path) -> None:
    def worker() -> Any:
        found = start_worker(
            bootstrap=own_broker.bootstrap, topic_prefix=PREFIX, partitions=2, data_dir=tmp_path / "worker"
        )
        found.wait_ready()
        return found

    (tmp_path / "worker").mkdir()
    running = worker()
    served = Served(own_broker.bootstrap, tmp_path / "gateway", prefix=PREFIX)
    settings = load({"topic_prefix": PREFIX, "bootstrap_servers": own_broker.bootstrap}, environment={})
    with browser.browser() as chromium, Client(settings=settings) as client:
        page = chromium.new_page()
        page.goto(f"{served.url}/explain")  # a page that asks for nothing by itself
        page.evaluate(LISTEN)
        client.subscribe(subscriber_id="anna", topic="1").wait(PATIENCE)
        sent: list[str] = []

        def publish() -> None:
            sent.append(client.publish({"number": len(sent)}, topic="1.2", publication_id=f"p{len(sent)}"))

        def told() -> None:
            page.wait_for_function("count => window.got.length >= count", arg=len(sent), timeout=2 * PATIENCE * 1000)

        publish()
        told()
        running.kill()
        publish()
        running = worker()
        publish()
        told()
        own_broker.end(signal.SIGKILL)
        own_broker.restart()
        if running.process.poll() is not None:  # it says so and ends, if Kafka is away for long
            running = worker()
        publish()
        told()
        served.kill()
        publish()
        served.restart()
        publish()
        told()
        publish()
        told()
        assert page.evaluate("() => window.got") == sent
    served.stop()
