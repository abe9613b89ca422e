"""What ingest takes: every form a publication may come in, once or on and on."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from confluent_kafka import Producer

from pastforward import broker as embedded
from pastforward import topics
from pastforward.client import Client
from pastforward.errors import UserError
from pastforward.schemas import Publication, encode
from pastforward.spark_batch import ingest as ingest_module
from pastforward.spark_batch.ingest import ingest
from pastforward.spark_batch.kafka import MakeRegistry
from pastforward.spark_batch.shown import Summary
from pastforward.spark_batch.tables import Places, exists, read_publications
from tests.spark_batch.conftest import MakeSettings
from tests.streams.system import Log, Setup

pytestmark = pytest.mark.broker


class _Registry(BaseHTTPRequestHandler):
    """The two requests of a schema registry that our side makes; one schema for each text, as the real one."""

    schemas: list[str]

    def do_POST(self) -> None:
        schema = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["schema"]
        if schema not in self.schemas:
            self.schemas.append(schema)
        self._answer({"id": self.schemas.index(schema) + 1, "schema": schema})

    def do_GET(self) -> None:
        number = int(self.path.partition("?")[0].rpartition("/")[2])
        if 0 < number <= len(self.schemas):
            self._answer({"schema": self.schemas[number - 1]})
        else:
            self._answer({"error_code": 40403, "message": "Schema not found"}, 404)

    def _answer(self, document: dict[str, Any], status: int = 200) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def registry_url() -> Iterator[str]:
    handler = type("Handler", (_Registry,), {"schemas": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 240
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_followed_with_a_registry_every_form_is_taken(
    spark: Any,
    broker: embedded.Broker,
    history: MakeSettings,
    registry_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = history(
        bootstrap_servers=broker.bootstrap,
        topic_prefix="forms.",
        partitions=2,
        schema_registry_url=registry_url,
    )
    topics.ensure(settings, topics.connect(settings, broker.bootstrap))
    registry = MakeRegistry.of(settings)()
    wire = encode(Publication("wire", topic="1.2", attributes={"x": 1}), registry=registry)
    assert wire[0] == 0
    assert wire[1:5] == b"\x00\x00\x00\x01"
    places = Places(settings.history)
    monkeypatch.setattr(ingest_module, "FOLLOW_SECONDS", 1)
    ended: list[Summary] = []
    follower = threading.Thread(
        target=lambda: ended.append(ingest(spark, settings, follow=True, quiet=True)), daemon=True
    )
    follower.start()

    def kept() -> set[str]:
        if not exists(spark, places.publications):
            return set()
        return {row[0] for row in read_publications(spark, places).select("publication_id").collect()}

    with Client(settings=settings) as client:
        client._send(
            "forms.publications",
            [
                ("wire", wire),
                ("single", encode(Publication("single", topic="1"))),
                ("json", b'{"topic": "1", "attributes": {"x": 2}}'),
                ("unknown", b"\x00\x00\x00\x00\x63" + wire[5:]),  # no such id in the registry
                ("unreadable", b"no publication"),
            ],
        )
        until(lambda: kept() == {"wire", "single", "json"})
        client._send("forms.publications", [("another", wire)])
        client.publish_many([Publication("later too")])
        until(lambda: "later too" in kept())
    (query,) = spark.streams.active
    query.stop()
    follower.join(60)
    (summary,) = ended
    assert kept() == {"wire", "single", "json", "later too"}
    assert summary.facts["ingested"] == 4
    assert summary.facts["unreadable"] == 3  # the third: its value has another id than its key
    rows = read_publications(spark, places).where("publication_id = 'wire'").select("integers", "path").collect()
    assert [(row["integers"], row["path"]) for row in rows] == [({"x": 1}, "a1a2")]


def test_a_broker_whose_clock_steps_back(spark: Any, broker: embedded.Broker, history: MakeSettings) -> None:
    """Within a batch, and between two of them: as in the stream, nothing arrives before what is below it in its partition."""
    settings = history(bootstrap_servers=broker.bootstrap, topic_prefix="stepping.", partitions=1)
    topics.ensure(settings, topics.connect(settings, broker.bootstrap))
    Log(broker.bootstrap, Setup("stepping.")).stamp("publications", "CreateTime")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    places = Places(settings.history)

    begin = int(time.time() * 1000) + 60_000

    def ingested(*stamps: int) -> list[tuple[str, int, int]]:
        for stamp in stamps:
            value = b'{"topic": "1"}'
            producer.produce("stepping.publications", value, str(stamp).encode(), timestamp=begin + stamp)
        assert producer.flush(60) == 0
        ingest(spark, settings, quiet=True)
        rows = read_publications(spark, places).selectExpr(
            "publication_id", "unix_millis(arrived_at)", "unix_millis(published_at)"
        )
        return sorted((name, arrived - begin, published - begin) for name, arrived, published in rows.collect())

    assert ingested(1_000, 3_000, 2_000) == [("1000", 1_000, 1_000), ("2000", 3_000, 3_000), ("3000", 3_000, 3_000)]
    assert ingested(2_500, 4_000)[-3:] == [("2500", 3_000, 3_000), ("3000", 3_000, 3_000), ("4000", 4_000, 4_000)]
    assert ("3500", 4_000, 4_000) in ingested(3_500)


def test_a_registry_that_does_not_answer_ends_the_ingest(
    spark: Any, broker: embedded.Broker, history: MakeSettings
) -> None:
    """Its records are not bad: skipping them would lose them."""
    settings = history(
        bootstrap_servers=broker.bootstrap,
        topic_prefix="mute.",
        partitions=1,
        schema_registry_url="http://127.0.0.1:9",
    )
    topics.ensure(settings, topics.connect(settings, broker.bootstrap))
    with Client(settings=settings) as client:
        client._send("mute.publications", [("p", b"\x00\x00\x00\x00\x01" + encode(Publication("p"))[10:])])
    with pytest.raises(UserError, match="registry"):
        ingest(spark, settings, quiet=True)
    assert read_publications(spark, Places(settings.history)).count() == 0
