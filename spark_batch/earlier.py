"""What came before a publication on exactly its topic: the previous one, for `previous.…`, and the ids of the earlier ones.

The stream fixes both when a publication is stored, from what its partition holds then. The history knows arrival, partition and offset
of everything, and takes that order for the log's, and a publication's own arrival for the log time. So the two agree unless
publications on one topic came through different input partitions within the time that a router takes to pass them on.

One pass over the rows, sorted by topic and arrival: what must be remembered is one topic's hot window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from pastforward.spark_batch.rows import PREVIOUS_MAP, micros
from pastforward.spark_batch.tables import MAPS, spark_schema

MOST_IDS: Final = 100  # as the stream: ids of earlier publications in a notification
_ORDER: Final = ("topic", "arrived_at", "partition", "offset")


@dataclass(slots=True)
class _Held:
    published_at: int
    position: int
    expires_at: int
    held_at: int
    name: str
    batch: pa.RecordBatch
    row: int


class _Topic:
    """What one partition of the rendezvous log would hold of one topic."""

    def __init__(self, hot_window: int) -> None:
        self._hot_window = hot_window
        self._held: list[_Held] = []
        self._arrivals: dict[str, int] = {}
        self._position = 0

    def is_duplicate(self, name: str, arrived_at: int) -> bool:
        before = self._arrivals.get(name)
        if before is not None and arrived_at - before <= self._hot_window:
            return True
        self._arrivals[name] = arrived_at
        if len(self._arrivals) > 2 * len(self._held) + 1_000:
            oldest = arrived_at - self._hot_window
            self._arrivals = {each: at for each, at in self._arrivals.items() if at >= oldest}
        return False

    def earlier(self, now: int) -> list[_Held]:
        """Those still valid, the latest published first, then the later in the log."""
        oldest = now - self._hot_window
        self._held = [held for held in self._held if held.held_at >= oldest and held.expires_at > now]
        return sorted(self._held, key=lambda held: (-held.published_at, -held.position))

    def keep(self, held: _Held, now: int) -> None:
        held.position = self._position
        self._position += 1
        if held.held_at >= now - self._hot_window:
            self._held.append(held)


def looking_back(hot_window: int, with_ids: bool) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow` over sorted rows. Adds the maps of the previous publication, or with `with_ids` the earlier ids.

    A publication whose id comes again within the hot window is left out, as in the stream.
    """

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        topic_name: str | None = None
        topic = _Topic(hot_window)
        for batch in batches:
            kept: list[int] = []
            before: list[_Held | None] = []
            ids: list[list[str]] = []
            names, topics = batch.column("publication_id").to_pylist(), batch.column("topic").to_pylist()
            published, expires, arrived = (
                micros(batch.column(column)).tolist() for column in ("published_at", "expires_at", "arrived_at")
            )
            for row in range(batch.num_rows):
                if topics[row] != topic_name:
                    topic_name, topic = topics[row], _Topic(hot_window)
                now = arrived[row]
                if topic.is_duplicate(names[row], now):
                    continue
                earlier = topic.earlier(now)
                kept.append(row)
                before.append(earlier[0] if earlier else None)
                ids.append([held.name for held in earlier[:MOST_IDS]])
                held_at = min(published[row], now)
                topic.keep(_Held(published[row], 0, expires[row], held_at, names[row], batch, row), now)
            if with_ids:
                yield _with_ids(batch, kept, ids)
            else:
                yield _with_previous(batch, kept, before)

    return look


def _with_ids(batch: pa.RecordBatch, kept: list[int], ids: list[list[str]]) -> pa.RecordBatch:
    taken = batch.take(pa.array(kept, pa.int64()))
    columns = [taken.column("partition"), taken.column("offset"), pa.array(ids, pa.list_(pa.string()))]
    return pa.RecordBatch.from_arrays(columns, names=["partition", "offset", "earlier_ids"])


def _with_previous(batch: pa.RecordBatch, kept: list[int], before: list[_Held | None]) -> pa.RecordBatch:
    """The rows that stay, with the previous publication's maps taken from the batches they stand in."""
    sources: dict[int, tuple[int, pa.RecordBatch]] = {}
    start = 0
    for held in before:
        if held is not None and id(held.batch) not in sources:
            sources[id(held.batch)] = (start, held.batch)
            start += held.batch.num_rows
    places = [None if held is None else sources[id(held.batch)][0] + held.row for held in before]
    index = pa.array(places, pa.int64())
    taken = batch.take(pa.array(kept, pa.int64()))
    columns, fields = list(taken.columns), list(taken.schema)
    for name in MAPS:
        parts = [source.column(name) for _, source in sources.values()]
        whole = pa.concat_arrays(parts) if parts else pa.array([], batch.schema.field(name).type)
        columns.append(whole.take(index))
        fields.append(pa.field(PREVIOUS_MAP + name, batch.schema.field(name).type))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _sorted(rows: Any) -> Any:
    return rows.repartition("topic").sortWithinPartitions(*_ORDER)


def with_previous(rows: Any, hot_window: int) -> Any:
    """The rows of the table, with the maps of the previous publication beside their own."""
    from pyspark.sql.types import StructField, StructType

    schema = rows.schema
    added = [StructField(PREVIOUS_MAP + name, schema[name].dataType) for name in MAPS]
    whole = StructType([*(StructField(f.name, f.dataType) for f in schema), *added])
    return _sorted(rows).mapInArrow(looking_back(hot_window, with_ids=False), whole)


def earlier_ids(rows: Any, hot_window: int) -> Any:
    """`partition`, `offset` and `earlier_ids` of rows."""
    schema = pa.schema(
        [
            pa.field("partition", pa.int32()),
            pa.field("offset", pa.int64()),
            pa.field("earlier_ids", pa.list_(pa.string())),
        ]
    )
    chosen = rows.select("publication_id", "published_at", "expires_at", *_ORDER)
    return _sorted(chosen).mapInArrow(looking_back(hot_window, with_ids=True), spark_schema(schema))
