"""Publications as dictionaries: the short way writes what the long way would have accepted, and the same."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pastforward import Point, SchemaError, Subscription
from pastforward.client.dictionaries import PlainWriter, new_names, publication_of
from pastforward.schemas import decode_publication, encode
from pastforward.schemas.acceptance import accept_publication
from pastforward.testing import System

NOW = 1_700_000_000_000_000

texts = st.one_of(
    st.text(max_size=5),
    st.sampled_from(["", "~x", "a\0b", "é", "\ud800", "x" * 513, "previous.x", "1.4.2", "1..2", "01"]),
)
numbers = st.one_of(
    st.integers(-(2**66), 2**66),
    st.floats(),
    st.sampled_from([2**63 - 1, 2**63, -(2**63), 2**53 + 1, 1e300, -0.0, 1e16, 0.1, 9.3e18]),
)
values = st.one_of(
    texts, numbers, st.booleans(), st.none(), st.just(Point(8.5, 47.4)), st.just(np.float32(0.5)), st.just([1])
)
times = st.one_of(st.none(), st.integers(-(10**18), 10**18), st.integers(NOW, NOW + 9), st.just("-10m"), st.just(True))
dictionaries = st.fixed_dictionaries(
    {"attributes": st.one_of(st.dictionaries(texts, values, max_size=4), st.none())},
    optional={
        "topic": st.one_of(texts, st.lists(st.integers(0, 2**64), max_size=70).map(lambda p: ".".join(map(str, p)))),
        "publication_id": st.one_of(texts, st.none()),
        "publisher_id": st.one_of(texts, st.none(), st.just(5)),
        "published_at": times,
        "expires_at": times,
        "where": st.sampled_from([None, "x > 1"]),
        "kind": st.just("accident"),
    },
)


def long_way(fields: dict[str, Any]) -> Any:
    record = publication_of(fields, NOW)
    record.publication_id = "made" if record.publication_id is None else record.publication_id
    value = encode(record)
    accept_publication(record)
    return decode_publication(None, value)


@given(dictionaries)
@example({"attributes": {"x": 1e19}})
@example({"attributes": {"x": float("nan")}})
def test_the_short_way_is_the_long_way(fields: dict[str, Any]) -> None:
    value = PlainWriter().write(fields)
    if value is not None:
        key = fields.get("publication_id") or "made"
        expected = long_way(fields)
        found = decode_publication(key.encode(), value)
        accept_publication(found)
        assert found == expected
        assert list(map(type, found.attributes.values())) == list(map(type, expected.attributes.values()))


def test_what_most_programs_have_is_plain() -> None:
    fields = {
        "topic": "1.4.2",
        "attributes": {"kind": "Unfall in Zürich", "n": 3, "x": 0.5, "ok": True},
        "published_at": NOW,
    }
    writer = PlainWriter()
    assert writer.write(fields) is not None
    assert writer.write({**fields, "publisher_id": "anna", "publication_id": "p"}) is not None


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"kind": "accident"}, "a publication has no kind; did you mean .*What is said stands in attributes"),
        ({"topic": "1..2", "attributes": {}}, "empty component"),
        ({"attributes": {"x": 2**63}}, "attribute 'x'"),
        ({"attributes": {"previous.x": 1}}, "reserved"),
        ({"attributes": {}, "published_at": "soon"}, "published_at: 'soon' is no time"),
        ({"attributes": [1]}, "must be a dictionary"),
        ({"attributes": {"x": 1}, "publication_id": ""}, "publication_id has 0 bytes"),
    ],
)
def test_what_is_wrong_is_told_by_the_long_way(fields: dict[str, Any], says: str) -> None:
    assert PlainWriter().write(fields) is None
    with pytest.raises(SchemaError, match=says):
        long_way(fields)


def test_dictionaries_are_published(pastforward: System) -> None:
    client = pastforward.client()
    handle = client.subscribe("x > 1 OR within(at, CIRCLE(8.5, 47.4, 10))", subscriber_id="anna")
    many: list[dict[str, Any]] = [
        {"topic": "1", "attributes": {"x": 2}, "publication_id": "plain"},
        {"topic": "1", "attributes": {"at": Point(8.5, 47.4)}, "publication_id": "a place"},
        {"attributes": {"x": 3}, "published_at": datetime(2026, 1, 1, tzinfo=UTC), "expires_at": "+1m"},
        {"attributes": {"x": 1}},
    ]
    assert client.publish_many(many) == 4
    found = handle.take(9, 0.0)
    assert [each.publication_id for each in found[:2]] == ["plain", "a place"]
    assert len(found) == 3
    made = client.publication(found[2].publication_id)
    assert made is not None
    assert made.expires_at == pastforward.clock.now.micros + 60_000_000


def test_subscriptions_come_as_dictionaries_too(pastforward: System) -> None:
    client = pastforward.client()
    client.publish({"x": 2}, topic="1", publication_id="before")
    handles = client.subscribe_many(
        [
            {"subscriber_id": "anna", "where": "x > 1", "topic": "1", "starts_at": "-1m"},
            {"subscriber_id": "ben", "subscription_id": "ben's", "where": "x > 2"},
            Subscription("cleo's", "cleo", where="x > 0", starts_at=0),
        ]
    )
    found = [[each.publication_id for each in handle.take(9, 0.0)] for handle in handles]
    assert found == [["before"], [], ["before"]]
    assert handles[1].subscription_id == "ben's"
    assert [each.version for each in handles] == ["0-0", "0-1", "0-2"]
    assert len(client.subscriptions()) == 3
    for wrong, says in (
        ({"subscriber_id": "anna", "wehre": "x > 1"}, "did you mean where"),
        ({"where": "x > 1"}, "who is notified"),
        ({"subscriber_id": "anna", "where": "x >"}, "at character 4"),
        ({"subscriber_id": "anna", "topic": "1..2"}, "empty component"),
    ):
        with pytest.raises(SchemaError, match=says):
            client.subscribe_many([{"subscriber_id": "dora"}, wrong])
    assert len(client.subscriptions()) == 3  # nothing was sent with it


def test_made_names_are_made_once() -> None:
    names, found = new_names(), []
    threads = [threading.Thread(target=lambda: found.extend(next(names) for _ in range(1000))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 4000
    assert next(new_names())[:24] != found[0][:24]


@given(st.floats(-200, 200), st.floats(-100, 100), st.booleans())
def test_points_go_the_short_way(lon: float, lat: float, whole: bool) -> None:
    """Positions come by the thousand."""
    point = Point(int(lon), lat) if whole else Point(lon, lat)
    written = PlainWriter().write({"attributes": {"place": point}})
    if not whole and -180 <= lon <= 180 and -90 <= lat <= 90:
        assert written is not None
        assert decode_publication(b"p", written).attributes == {"place": point}
    else:
        assert written is None
