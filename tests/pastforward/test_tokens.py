"""Positions: a stream is resumed exactly where it was left, or says why it cannot be."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from pastforward import Client, TokenExpired, UserError
from pastforward.broker import Broker
from pastforward.client.own import Own
from pastforward.client.partitions import partition_of
from pastforward.client.tokens import read_token, write_token
from pastforward.schemas import Notification, encode
from pastforward.settings import load
from pastforward.streams.stages import outgoing
from pastforward.topics import connect, ensure
from tests.outside import PATIENCE

PARTITIONS = 4


@given(st.dictionaries(st.integers(0, 100_000), st.integers(0, 2**63 - 1), min_size=1, max_size=9))
def test_a_token_is_read_back(positions: dict[int, int]) -> None:
    token = write_token(positions)
    assert read_token(token) == positions
    assert token.replace("-", "").replace("_", "").isalnum()


@pytest.mark.parametrize(
    "token", ["", "x", "AA", "AQ", "ÄÖ", "AQM", write_token({3: 900}) + "A", "Ag" + write_token({3: 9})[2:]]
)
def test_what_is_no_token_says_so(token: str) -> None:
    with pytest.raises(UserError, match="is no token"):
        read_token(token)


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1), st.integers(1, 100))
def test_a_key_has_the_partition_that_the_workers_kernel_gives_it(keys: list[bytes], partitions: int) -> None:
    for key in keys:
        assert partition_of(key, partitions) == outgoing.partition_of(key, partitions)


@given(st.sets(st.integers(0, 60)))
def test_a_client_knows_what_it_has_sent(offsets: set[int]) -> None:
    own = Own()
    add = own.adder("t")
    for offset in sorted(offsets):
        add(1, offset)
    assert {n for n in range(62) if ("t", 1, n) in own} == offsets
    assert ("t", 2, 0) not in own
    assert len(own._first.get(("t", 1), [])) <= len(offsets)


@pytest.fixture(scope="module")
def client(broker: Broker) -> Client:
    settings = load({"topic_prefix": "tokens.", "partitions": PARTITIONS}, environment={})
    ensure(settings, connect(settings, broker.bootstrap))
    return Client(broker.bootstrap, settings=settings)


def notify(client: Client, recipient: str, *names: str) -> None:
    records = [
        Notification(uuid.uuid4().hex, "s", "0-1", name, recipient, "subscriber", "1", 1, 1, "live") for name in names
    ]
    client._send("tokens.notifications", [(recipient, encode(record)) for record in records])


def names_of(stream: Any, count: int) -> list[str]:
    return [next(stream).publication_id for _ in range(count)]


@pytest.mark.broker
def test_a_stream_goes_on_behind_its_token(client: Client) -> None:
    stream = client.notifications("anna", timeout=PATIENCE)
    begin = stream.token
    # another recipient of the same partition, in between
    partition = partition_of(b"anna", PARTITIONS)
    other = next(name for n in range(100) if partition_of((name := f"o{n}").encode(), PARTITIONS) == partition)
    sent = [f"p{n}" for n in range(10)]
    for name in sent:
        notify(client, other, "not hers")
        notify(client, "anna", name)
    tokens = [begin]
    for name in sent:
        notification = next(stream)
        assert notification.publication_id == name
        assert notification.token == stream.token
        tokens.append(stream.token)
    for at, token in enumerate(tokens[:-1]):
        assert names_of(client.notifications("anna", after=token, timeout=PATIENCE), 10 - at) == sent[at:]
    notify(client, "anna", "later")
    assert names_of(client.notifications("anna", after=tokens[-1], timeout=PATIENCE), 1) == ["later"]
    everything = client.notifications(timeout=PATIENCE)
    notify(client, "anna", "one")
    notify(client, "cleo", "two")
    first = next(everything).publication_id
    rest = client.notifications(after=everything.token, timeout=PATIENCE)
    assert {first, next(rest).publication_id} == {"one", "two"}


@pytest.mark.broker
def test_only_the_partition_of_the_recipient_is_read(client: Client) -> None:
    stream = client.notifications("anna")
    assigned = [place.partition for place in stream._reader.consumer.assignment()]
    assert assigned == [partition_of(b"anna", PARTITIONS)] == list(stream.positions)
    assert len(client.notifications()._reader.consumer.assignment()) == PARTITIONS


@pytest.mark.broker
def test_a_token_that_cannot_be_resumed_is_an_error(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"r{n}" for n in range(200)]
    partition = partition_of(names[0].encode(), PARTITIONS)
    stream = client.notifications(names[0], timeout=PATIENCE)
    begin = stream.token
    notify(client, names[0], "a", "b", "c")
    assert names_of(stream, 3) == ["a", "b", "c"]
    (place,) = stream.positions.items()
    beyond = write_token({place[0]: place[1] + 1})
    with pytest.raises(TokenExpired, match="the topic was made anew, or the token is of another system"):
        client.notifications(names[0], after=beyond)
    elsewhere = next(name for name in names if partition_of(name.encode(), PARTITIONS) != partition)
    with pytest.raises(UserError, match="another recipient's"):
        client.notifications(elsewhere, after=begin)
    with pytest.raises(UserError, match="another recipient's"):
        client.notifications(after=begin)
    with pytest.raises(UserError, match="either since or after"):
        client.notifications(names[0], after=begin, since="-1m")
    admin = connect(client._settings, client.bootstrap_servers)
    for future in admin.delete_records([TopicPartition("tokens.notifications", *place)]).values():
        future.result()
    with pytest.raises(TokenExpired, match=r"3 records were deleted before they were read; read from a moment on"):
        client.notifications(names[0], after=begin)
    monkeypatch.setattr(client._offsets, "checked", lambda *given: given[2])  # it was there a moment ago
    with pytest.raises(TokenExpired, match="what comes next was deleted before it was read"):
        next(client.notifications(names[0], after=begin, timeout=PATIENCE))
    monkeypatch.undo()
    assert client.notifications(names[0], after=stream.token).next(0) is None


@pytest.mark.broker
def test_the_token_of_a_quiet_recipient_moves_on(client: Client) -> None:
    """Or it would expire although nothing of its reader's was ever deleted."""
    stream = client.notifications("anna")
    before = stream.token
    partition = partition_of(b"anna", PARTITIONS)
    other = next(name for n in range(100) if partition_of((name := f"q{n}").encode(), PARTITIONS) == partition)
    notify(client, other, "not hers")
    while stream.token == before:
        assert stream.next(0.1) is None
