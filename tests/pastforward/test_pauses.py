"""A subscription that is paused is listed and matches nothing; what came meanwhile is notified when it is resumed, and once."""

from __future__ import annotations

import pytest

from pastforward import Client
from pastforward.broker import Broker
from pastforward.settings import load
from tests.conftest import StartWorker

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("index", ["memory", "disk"])
def test_a_pause_that_a_worker_does_not_survive(broker: Broker, start_worker: StartWorker, index: str) -> None:
    prefix = f"pauses-{index}."
    options = {"topic_prefix": prefix, "partitions": 4, "index": index}
    worker = start_worker(**options)
    worker.wait_ready()
    with (
        Client(broker.bootstrap, settings=load({"topic_prefix": prefix}, environment={})) as client,
        client.subscribe("n >= 0", subscriber_id="probe", topic="1") as probe,
        client.subscribe("n >= 0", subscriber_id="anna", subscription_id="s", topic="1", starts_at="-10m") as handle,
    ):
        probe.wait()
        handle.wait()

        def publish(name: str) -> None:
            client.publish({"n": 1}, topic="1.2", publication_id=name)
            assert next(probe).publication_id == name

        publish("before")
        handle.pause()
        handle.wait()
        assert [each.state for each in client.subscriptions("anna")] == ["paused"]
        publish("during")
        worker.kill()
        worker = start_worker(**options)
        worker.wait_ready()
        publish("later")
        client.resume("s").wait()
        publish("after")
        found = [next(handle) for _ in range(4)]
        assert {each.publication_id: each.phase for each in found} == {
            "before": "live",
            "during": "past",
            "later": "past",
            "after": "live",
        }
        # one that is replaced, not resumed, finds its past again: so all is read that was written
        client.replace("s", where="n = 1").wait()
        again = [next(handle) for _ in range(4)]
        assert sorted(each.publication_id for each in again) == ["after", "before", "during", "later"]
        assert {each.phase for each in again} == {"past"}
