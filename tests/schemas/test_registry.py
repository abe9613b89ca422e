"""The Confluent wire format, with confluent-kafka's registry in this process."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import numpy as np
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

from pastforward import schemas
from pastforward.schemas import Notification, Publication, SchemaError, Subscription
from pastforward.schemas.definitions import NAMES, current
from pastforward.schemas.registry import RegistryUnavailable, SchemaRegistry

TOPICS = {name: f"pastforward.{name}s" for name in NAMES}


@pytest.fixture
def client(request: pytest.FixtureRequest) -> Any:
    return SchemaRegistryClient.new_client({"url": f"mock://{request.node.name}"})


@pytest.fixture
def registry(client: Any) -> SchemaRegistry:
    return SchemaRegistry("mock://", TOPICS, client)


def test_all_schemas_are_registered_under_their_topics(client: Any, registry: SchemaRegistry) -> None:
    ids = registry.register()
    assert set(ids) == set(NAMES)
    assert sorted(client.get_subjects()) == sorted(f"{topic}-value" for topic in TOPICS.values())
    assert registry.register() == ids


def test_the_header_is_a_zero_byte_and_the_id(registry: SchemaRegistry) -> None:
    value = schemas.encode(Publication("p"), registry=registry)
    assert value[:5] == b"\x00" + registry.schema_id("publication").to_bytes(4, "big")
    assert value[5:] == schemas.encode(Publication("p"))[10:]


def test_confluents_own_deserialiser_reads_what_we_write(client: Any, registry: SchemaRegistry) -> None:
    record = Notification("n", "s", "2-1735", "p", "anna", "subscriber", "1.4", 5, 6, "live")
    value = schemas.encode(record, registry=registry)
    read = AvroDeserializer(client)
    found = read(value, SerializationContext(TOPICS["notification"], MessageField.VALUE))
    assert isinstance(found, dict)
    assert (found["notification_id"], found["phase"], found["topic"]) == ("n", "live", "1.4")


def test_we_read_what_confluents_serialiser_writes(client: Any, registry: SchemaRegistry) -> None:
    write = AvroSerializer(client, current("subscription").text)
    value = write(
        {"subscriber_id": "anna", "topic": "1.4"}, SerializationContext(TOPICS["subscription"], MessageField.VALUE)
    )
    assert isinstance(value, bytes)
    assert schemas.decode_subscription(b"s", value, registry) == Subscription("s", "anna", "1.4")


def other_schema(client: Any) -> tuple[int, bytes]:
    """A client's own schema: other fields, other order. Its id, and a record."""
    schema = {
        "type": "record",
        "name": "Reading",
        "fields": [
            {"name": "attributes", "type": {"type": "map", "values": ["double", "string"]}},
            {"name": "sensor", "type": ["null", {"type": "array", "items": "string"}]},
            {"name": "topic", "type": "string"},
        ],
    }
    number = client.register_schema("readings-value", Schema(json.dumps(schema), "AVRO"))
    out = io.BytesIO()
    record = {"attributes": {"t": 1.5, "unit": "C"}, "sensor": ["a", "b"], "topic": "1.2"}
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return number, b"\x00" + number.to_bytes(4, "big") + out.getvalue()


def test_a_clients_own_schema_is_read_alone_and_in_chunks(client: Any, registry: SchemaRegistry) -> None:
    _, value = other_schema(client)
    expected = Publication("p", topic="1.2", attributes={"t": 1.5, "unit": "C"})
    assert schemas.decode_publication(b"p", value, registry) == expected
    ours = schemas.encode(Publication("q", topic="1.3"), registry=registry)
    values = [value, ours, b"\x00\x00\x00\x27\x0f", b"\x00\x00", b"{}", schemas.encode(Publication("r"))]
    clock = np.arange(6, dtype=np.int64)
    columns = schemas.decode_publications([b"p", b"q", b"x", b"y", b"z", b"r"], values, 0, clock, clock, registry)
    assert columns.ok.tolist() == [True, True, False, False, True, True]
    assert schemas.attributes_of(columns.attributes, 0) == expected.attributes
    assert columns.topic[0] == b"1.2"
    assert columns.topic[1] == b"1.3"
    assert [error.reason for _, error in columns.errors] == [
        "the registry has no schema 9999: register it before sending",
        "the Confluent header ends too early",
    ]


def test_rendezvous_and_notifications_under_a_registry(registry: SchemaRegistry) -> None:
    clock = np.arange(1, dtype=np.int64)
    columns = schemas.decode_publications([b"p"], [b'{"attributes": {"a": 1}}'], 0, clock, clock)
    start, partitions = np.array([0, 1]), np.array([2], dtype=np.int32)
    values, errors = schemas.encode_rendezvous_publications(columns, np.arange(1), 1, start, partitions, {}, registry)
    assert not errors
    assert values[0][:1] == b"\x00"
    found = schemas.decode_rendezvous_chunk(values, registry)
    assert schemas.attributes_of(found.attributes, 0) == {"a": 1}
    assert found.partitions.tolist() == [2]


@pytest.mark.parametrize(
    "text",
    [
        '"string"',
        '{"type": "record", "name": "R", "fields": [{"name": "topic", "type": "Elsewhere"}]}',
        "{",
        '{"type": "record"}',
    ],
)
def test_a_schema_that_is_no_record_is_the_senders_fault(text: str) -> None:
    class Odd:
        def get_schema(self, _: int) -> Schema:
            return Schema(text, "AVRO")

    registry = SchemaRegistry("http://x", TOPICS, Odd())  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="schema 1 of the registry"):
        registry.definition("publication", 1)


class Failing:
    """Counts requests, and answers each with an error."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.requests = 0

    def get_schema(self, _: int) -> Schema:
        self.requests += 1
        raise self.error

    def register_schema(self, *_: object) -> int:
        raise self.error


def test_an_unknown_id_costs_one_request_for_a_while() -> None:
    client = Failing(SchemaRegistryError(404, 40403, "not found"))
    now = 0.0
    registry = SchemaRegistry("http://x", TOPICS, client, lambda: now)  # type: ignore[arg-type]
    for _ in range(3):
        with pytest.raises(SchemaError, match="no schema 7"):
            registry.definition("publication", 7)
    assert client.requests == 1
    now = 60.0
    with pytest.raises(SchemaError):
        registry.definition("publication", 7)
    assert client.requests == 2


@pytest.mark.parametrize("error", [ConnectionError("refused"), SchemaRegistryError(503, 50300, "later")])
def test_a_registry_that_does_not_answer_is_nobodys_dead_letter(error: Exception) -> None:
    registry = SchemaRegistry("http://x", TOPICS, Failing(error))  # type: ignore[arg-type]
    with pytest.raises(RegistryUnavailable, match="http://x"):
        registry.definition("publication", 1)
    with pytest.raises(RegistryUnavailable, match="http://x"):
        registry.schema_id("publication")


def test_an_unknown_kind_of_record_is_refused() -> None:
    with pytest.raises(ValueError, match="no such records: readings"):
        SchemaRegistry("mock://x", {"readings": "t"})
