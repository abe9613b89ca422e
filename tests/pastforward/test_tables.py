"""Tables of publications: what a row says is what a dictionary with the same values says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pastforward import Circle, Client, Point, SchemaError
from pastforward.client.dictionaries import new_names
from pastforward.client.tables import records_of
from pastforward.schemas import decode_publication
from pastforward.testing import System

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
columns = st.fixed_dictionaries(
    {
        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
        "x": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "text": st.none() | st.text(st.characters(codec="utf-8"), max_size=4),
        "flag": st.none() | st.booleans(),
        "_topic": st.none() | st.sampled_from(["", "1.4", "2"]),
        "_published_at": st.none() | st.just(NOW) | st.datetimes(datetime(1990, 1, 1), timezones=st.just(UTC)),
    }
)
TYPES = {
    "n": pa.int64(),
    "x": pa.float64(),
    "text": pa.string(),
    "flag": pa.bool_(),
    "_topic": pa.string(),
    "_published_at": pa.timestamp("us", "UTC"),
}


def read(table: Any) -> list[Any]:
    return [decode_publication(key.encode(), value) for key, value in records_of(table, new_names(), str)]


@given(st.lists(columns, max_size=5), st.booleans())
def test_a_row_says_what_its_values_say(rows: list[dict[str, Any]], several: bool) -> None:
    table = pa.Table.from_pylist(rows, pa.schema(list(TYPES.items())))
    found = read(pa.concat_tables([table[:2], table[2:]]) if several else table)
    assert len(found) == len(rows)
    for record, row in zip(found, rows, strict=True):
        attributes = {name: row[name] for name in ("n", "x", "text", "flag") if row[name] is not None}
        assert record.attributes == attributes
        assert record.topic == (row["_topic"] or "")
        moment = row["_published_at"]
        assert record.published_at == (
            None if moment is None else (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        )


def test_every_type_of_a_column() -> None:
    table = pa.table(
        {
            "small": pa.array([1], pa.int8()),
            "half": pa.array([np.float16(0.5)], pa.float16()),
            "word": pa.array(["a"]).dictionary_encode(),
            "large": pa.array(["b"], pa.large_string()),
            "at": pa.array([NOW], pa.timestamp("ms", "Europe/Zurich")),
            "place": pa.array([{"lon": 8.5, "lat": 47.4}]),
            "around": pa.array([{"lon": 8.5, "lat": 47.4, "radius_m": 5.0}]),
            "nothing": pa.nulls(1),
        }
    )
    (found,) = read(table)
    assert found.attributes == {
        "small": 1,
        "half": 0.5,
        "word": "a",
        "large": "b",
        "at": NOW,
        "place": Point(8.5, 47.4),
        "around": Circle(8.5, 47.4, 5.0),
    }
    assert read(pa.table({"_topic": ["1.4"]}))[0].topic == "1.4"
    assert read(pa.table({"a": pa.array([], pa.int64())})) == []


def scene(system: System) -> None:
    client = system.client()
    frame = pd.DataFrame({"kind": ["ice", "fog", "ice"], "n": [1, 2, 3], "_topic": ["roads/I-95", "1.4", "1.4"]})
    with client.subscribe("kind = 'ice'", subscriber_id="anna") as handle:
        handle.wait()
        assert client.publish_many(frame) == 3
        assert {next(handle).content.attributes["n"] for _ in range(2)} == {1, 3}
        assert client.publish_many(pa.table({"kind": ["ice"], "_publication_id": ["mine"]})) == 1
        assert next(handle).publication_id == "mine"


def test_a_data_frame_is_published(pastforward: System) -> None:
    scene(pastforward)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"_topik": ["1"]}, "the table has a column '_topik': those that begin with _ are _topic"),
        ({"_topic": [7]}, "column '_topic' has type int64: write strings"),
        ({"_topic": ["1..2"]}, "has an empty component"),
        ({"_publication_id": ["~mine"]}, "begins with ~"),
        ({"_published_at": [datetime(2026, 1, 1)]}, "has times without a zone"),
        ({"_expires_at": [2**62]}, "which is no time in microseconds"),
        ({"x": [float("nan")]}, "column 'x' has a number that is not finite"),
        ({"x": pa.array([2**64 - 1], pa.uint64())}, "does not fit 64 bits"),
        ({"x": [b"raw"]}, "column 'x' has type binary: write booleans"),
        ({"x": [{"lon": 200.0, "lat": 1.0}]}, "column 'x'"),
        ({"x": [{"lon": None, "lat": 1.0}]}, "write null for the whole of it"),
        ({"previous.x": [1]}, "reserved"),
        ({"": [1]}, "the name of a column"),
        ({"x": ["a" * (1 << 20)]}, "at most 1048576 are taken"),
    ],
)
def test_what_is_wrong_is_said(pastforward: System, table: dict[str, Any], words: str) -> None:
    client: Client = pastforward.client()
    with pytest.raises(SchemaError, match=words):
        client.publish_many(pa.table(table))
