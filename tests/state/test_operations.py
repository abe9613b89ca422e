"""What is refused, and that nothing of it is applied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pastforward.columns.dewey import text_of
from pastforward.state import OperationError, StoreError, open_store
from pastforward.state.keys import parse_topic
from pastforward.state.operations import parse

GOOD = {"kind": ["subscription"], "id": ["s"], "topic": ["1.4"], "time": [5]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": ["subscribe"]}, "row 0: kind is 'subscribe'; it must be one of subscription"),
        ({"kind": [None]}, "kind is None"),
        ({"kind": [1]}, "use string"),
        ({"id": [""]}, "1 to 1792"),
        ({"id": ["x" * 1793]}, "1793 bytes"),
        ({"id": [None]}, "needs an id"),
        ({"id": [1.5]}, "int64 or string"),
        ({"topic": ["1..4"]}, "row 0: topic: the path '1..4'"),
        ({"topic": [["1", "a"]]}, "'a'"),
        ({"topic": [7.5]}, "list of strings"),
        ({"time": [None]}, "row 0: time is null"),
        ({"time": ["now"]}, "microseconds"),
        ({"time": [2**62 + 1]}, "2\\^62"),
        ({"ends_at": [-(2**63)]}, "2\\^62"),
        ({"scope": ["below"]}, "overlap, subtree"),
        ({"self_join": ["yes"]}, "use bool"),
        ({"payload": [3.5]}, "string or binary"),
        ({"subscriber_id": ["x" * 1793]}, "subscriber_id"),
        ({"colour": ["red"]}, "unknown column 'colour'"),
    ],
)
def test_what_is_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    with open_store(tmp_path / "s") as store:
        with pytest.raises(OperationError, match=words):
            store.apply(pa.table({**GOOD, **change}))
        assert list(store.scan("subscription")) == []
        assert store.log_time is None


def test_missing_columns_and_other_mistakes(tmp_path: Path) -> None:
    with open_store(tmp_path / "s") as store:
        with pytest.raises(OperationError, match="'time' is missing"):
            store.apply(pa.table({"kind": ["publication"], "id": ["p"]}))
        with pytest.raises(OperationError, match="pyarrow Table"):
            store.apply([GOOD])
        with pytest.raises(OperationError, match="both, past, none"):
            store.apply(pa.table(GOOD), find="all")
        with pytest.raises(OperationError, match="unknown column 'colour'"):
            store.apply(pa.table(GOOD), columns=["colour"])
        with pytest.raises(OperationError, match="one of subscription, publication"):
            next(store.scan("everything"))
        store.apply(pa.table(GOOD))
        with pytest.raises(OperationError, match="string ids, these are int64"):
            store.apply(pa.table({**GOOD, "id": [1]}))
    with pytest.raises(StoreError, match="closed"):
        store.apply(pa.table(GOOD))
    with pytest.raises(ValueError, match="layout"):
        open_store(tmp_path / "other", layout="three")


@settings(deadline=None)
@given(
    st.text("0123456789.a-", max_size=24)
    | st.lists(st.integers(0, 2**63), max_size=70).map(lambda p: text_of(tuple(p)))
)
def test_the_two_readers_of_topics_agree(topic: str) -> None:
    """The compiled one, which reads columns, and the plain one, which explains."""
    table = pa.table({**GOOD, "topic": [topic]})
    try:
        expected = parse_topic(topic)
    except OperationError:
        with pytest.raises(OperationError):
            parse(table)
    else:
        columns = parse(table).columns
        assert tuple(columns.components[: columns.paths[-1]].tolist()) == expected


def test_any_arrow_form_will_do(tmp_path: Path) -> None:
    """Chunks, slices, dictionaries, large and view types, timestamps, record batches."""
    rows = {
        "kind": pa.array(["publication", "publication", "subscription"]).dictionary_encode(),
        "id": pa.array(["p1", "p2", "s"], pa.large_string()),
        "topic": pa.array(["1", "1.2", ""], pa.string_view()),
        "time": pa.array([1, 2, 3], pa.timestamp("us", "UTC")),
        "payload": pa.array([b"a", None, b"c"], pa.large_binary()),
    }
    table = pa.concat_tables([pa.table(rows).slice(0, 1), pa.table(rows).slice(1)])
    with open_store(tmp_path / "s") as store:
        found = store.apply(table, columns=["payload", "topic"])
        told = {row["found_id"]: (row["operation"], row["payload"], row["topic"]) for row in found.to_pylist()}
        assert told == {"p1": (2, b"a", "1"), "p2": (2, b"", "1.2")}
        store.rollback()
        assert store.apply(pa.table(rows).to_batches()[0]).num_rows == 2
        assert store.apply(pa.table(rows).slice(3)).num_rows == 0
