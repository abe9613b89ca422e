"""Files that Python writes: everybody reads them, and their bounds are bounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pastforward.columns.times import EPOCH, MAX_TIME
from pastforward.matching.conditions.values import Box, Circle, Point
from pastforward.schemas import Publication
from pastforward.spark_batch import files
from pastforward.spark_batch.files import File
from pastforward.spark_batch.tables import PUBLICATIONS
from tests.spark_batch.records import rows_of

DEEP = ".".join(["9223372036854775807"] * 3)


def some() -> list[Publication]:
    values: list[Any] = [True, 7, 1.5, "text", EPOCH, Point(1.0, 2.0), Circle(1.0, 2.0, 3.0), Box(1.0, 2.0, 3.0, 4.0)]
    return [
        Publication(
            "first", topic="2.1", published_at=1_999, attributes={f"a{n}": value for n, value in enumerate(values)}
        ),
        Publication("second", "me", DEEP, 5_000_001, 6_000_000, {"a1": 8}, where="x > 1", body=b"\0"),
        Publication("third", topic="", published_at=-1_001, expires_at=MAX_TIME),
    ]


def test_what_is_written_is_read_and_lies_within_its_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "GROUP_ROWS", 2)
    batch = rows_of(some(), [10, 20, 30])
    file = File(str(tmp_path))
    for row in range(batch.num_rows):
        file.add(batch.slice(row, 1))
    add = json.loads(file.close() or "")["add"]
    path = tmp_path / add["path"]
    assert path.stat().st_size == add["size"]
    found = pq.read_table(path)
    assert found.schema.equals(PUBLICATIONS)
    assert found.to_pylist() == pa.Table.from_batches([batch]).to_pylist()
    assert pq.ParquetFile(path).num_row_groups == 2
    statistics = json.loads(add["stats"])
    assert statistics["numRecords"] == 3
    assert statistics["nullCount"] == {
        "path": 0, "published_at": 0, "expires_at": 1, "arrived_at": 0, "partition": 0, "offset": 0
    }  # fmt: skip
    assert statistics["minValues"] == {
        "path": "",
        "published_at": "1969-12-31T23:59:59.998Z",
        "expires_at": "1970-01-01T00:00:06.000Z",
        "arrived_at": "1970-01-01T00:00:00.000Z",
        "partition": 0,
        "offset": 0,
    }
    (_, deepest) = sorted(batch.column("path").to_pylist())[1:]
    assert statistics["maxValues"] == {
        "path": deepest[:32] + "~",
        "published_at": "1970-01-01T00:00:05.001Z",
        "arrived_at": "1970-01-01T00:00:00.001Z",
        "partition": 0,
        "offset": 2,
    }  # the last moment there is cannot be rounded up: no bound
    assert deepest < statistics["maxValues"]["path"]


def test_nothing_to_write_makes_no_file(tmp_path: Path) -> None:
    assert File(str(tmp_path)).close() is None
    assert not list(tmp_path.iterdir())
