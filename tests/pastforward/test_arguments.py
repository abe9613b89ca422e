"""What a caller gives: moments, types, and what is said of those that are wrong. No broker is needed to be refused."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import pastforward
from pastforward import Client, ClientClosed, Instant, PastforwardError, Refused, SchemaError, UserError
from pastforward.client import micros
from pastforward.client.moments import seconds_of
from pastforward.settings import load
from pastforward.testing import System

NOW = 1_700_000_000_000_000


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (None, None),
        ("-10m", NOW - 600_000_000),
        ("+1h30m", NOW + 5_400_000_000),
        ("-250ms", NOW - 250_000),
        (timedelta(seconds=-1), NOW - 1_000_000),
        (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), 1_000_000),
        ("1970-01-01T00:00:01.5Z", 1_500_000),
        ("1970-01-01T01:00:00+01:00", 0),
        (Instant.of(77), 77),
    ],
)
def test_a_moment(moment: Any, expected: int | None) -> None:
    assert micros(moment, NOW) == expected


@pytest.mark.parametrize(
    "moment", [5, 0, -600, 1.5, True, "now", "-10", "10m", "-10 minutes", "-m", "", b"-10m", object()]
)
def test_what_is_no_moment_is_told_what_to_write(moment: Any) -> None:
    with pytest.raises(
        SchemaError, match=r"starts_at.* write an aware datetime, a timedelta from now, or a text such as '-10m'"
    ):
        micros(moment, NOW, "starts_at")
    with pytest.raises(SchemaError, match="has no time zone"):
        micros(datetime(2026, 1, 1))


def test_an_instant_is_a_datetime_with_its_microseconds_beside() -> None:
    at = Instant.of(NOW + 1)
    assert at == datetime.fromtimestamp(NOW // 1_000_000, UTC) + timedelta(microseconds=1)
    assert (at.micros, at.tzinfo) == (NOW + 1, UTC)
    assert (at + timedelta(seconds=1)).micros == NOW + 1_000_001


@pytest.mark.parametrize("timeout", [-1, "5", True])
def test_a_time_out_is_seconds(timeout: Any) -> None:
    with pytest.raises(UserError, match="write seconds"):
        seconds_of(timeout)
    assert (seconds_of(5), seconds_of(None), seconds_of(timedelta(minutes=1))) == (5, None, 60)


@pytest.fixture(scope="module")
def client() -> Client:
    return Client("127.0.0.1:1", settings=load({}, environment={"PASTFORWARD_KAFKA_DELIVERY_TIMEOUT_MS": "1000"}))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"subscriber_id": 5}, "subscriber_id must be a string"),
        ({"subscriber_id": ""}, "subscriber_id has 0 bytes"),
        ({"subscription_id": "~0-1"}, "begins with ~"),
        ({"topic": "1..2"}, "empty component"),
        ({"scope": "all"}, "write one of overlap, subtree"),
        ({"where": 5}, "where must be a text"),
        ({"where": "kind ="}, "at character 7"),
        ({"where": "x > 1 AND x < 1"}, "never be true"),
        ({"starts_at": 5}, "starts_at is 5, an integer without a unit: write an aware datetime"),
        ({"starts_at": "-1m", "ends_at": "-2m"}, "ends_at"),
        ({"self_join": "yes"}, "true or false"),
    ],
)
def test_a_subscription_is_checked_before_it_is_sent(client: Client, options: dict[str, Any], says: str) -> None:
    with pytest.raises(SchemaError, match=says):
        client.subscribe(**{"subscriber_id": "anna", **options})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"attributes": [1]}, "attributes must be a dictionary"),
        ({"attributes": {5: 1}}, "must be a string"),
        ({"body": "text"}, "body must be bytes"),
        ({"where": {"kind": 1}}, "where must be a text"),
        ({"published_at": 5}, "published_at is 5"),
        ({"expires_at": 5}, "expires_at is 5"),
        ({"publication_id": ""}, "publication_id has 0 bytes"),
    ],
)
def test_a_publication_is_checked_before_it_is_sent(client: Client, options: dict[str, Any], says: str) -> None:
    with pytest.raises(SchemaError, match=says):
        client.publish(**options)


@pytest.mark.parametrize("name", ["", "~0-1", 5, None])
def test_so_is_the_id_of_a_withdrawal(client: Client, name: Any) -> None:
    with pytest.raises(SchemaError, match="subscription_id"):
        client.unsubscribe(name)


def test_after_close_nothing_is_taken() -> None:
    client = Client("127.0.0.1:1", settings=load({}, environment={}))
    client.close()
    for call in (
        lambda: client.publish({"x": 1}),
        lambda: client.publish_many([]),
        lambda: client.subscribe(subscriber_id="anna"),
        lambda: client.unsubscribe("s"),
        client.notifications,
        client.best_offers,
        client.refusals,
    ):
        with pytest.raises(ClientClosed, match="after the client was closed: make another Client"):
            call()
    client.close()


def test_all_names_are_there_and_the_errors_are_one_family() -> None:
    assert set(pastforward.__all__) <= set(dir(pastforward))
    for name in pastforward.__all__:
        found = getattr(pastforward, name)
        if isinstance(found, type) and issubclass(found, BaseException):
            assert issubclass(found, PastforwardError), name
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = pastforward.Nothing
    error = Refused("s", "bad_condition", "because")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_window_that_has_ended_before_it_begins(pastforward: System) -> None:
    """The router refuses it, so it is neither sent nor listed."""
    client = pastforward.client()
    for send in (
        lambda: client.subscribe(subscriber_id="anna", ends_at="-5m"),
        lambda: client.subscribe_many([{"subscriber_id": "anna", "ends_at": "-5m"}]),
    ):
        with pytest.raises(SchemaError, match="which is past, and the window begins now: give starts_at"):
            send()
    client.subscribe(subscriber_id="anna", starts_at="-10m", ends_at="-5m", subscription_id="past")
    end = client._now() - 1_000_000
    for name in ("refused", "past"):
        value = b'{"subscriber_id": "anna", "ends_at": %d}' % end
        client._send(client._topics.subscriptions, [(name, value)])
    assert len(list(client.dead_letters())) == 2
    (standing,) = client.subscriptions()
    assert (standing.subscription_id, standing.state) == ("past", "ended")
    assert standing.record.starts_at is not None
