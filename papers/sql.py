"""The relational baseline of Tomasic et al.: subscriptions as rows of tables, matching as a join for each operator pair in use.

`equalities` (subscription, attribute, value), `ranges` (subscription, attribute, low, high), `needs` (subscription, predicates). Each
kind of predicate is joined with the publications' values; a pair matches that is found as often as the subscription has predicates.
SQLite has indexes and looks values up in them; DuckDB hashes the one side and reads the other. One thread, in memory.
"""

from __future__ import annotations

import sqlite3
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pastforward.papers.loads.predicates import Load

I64 = npt.NDArray[np.int64]

_EQUALITIES = (
    "SELECT e.publication, s.subscription FROM events e JOIN equalities s "
    "ON s.attribute = e.attribute AND s.value = e.value"
)
_RANGES = (
    "SELECT e.publication, s.subscription FROM events e JOIN ranges s "
    "ON s.attribute = e.attribute AND s.low <= e.value AND e.value <= s.high"
)
_BOXES = (
    "SELECT x.publication, s.subscription FROM boxes s JOIN events x ON x.attribute = 0 AND s.x0 <= x.value AND x.value <= s.x1 "
    "JOIN events y ON y.publication = x.publication AND y.attribute = 1 AND s.y0 <= y.value AND y.value <= s.y1"
)


class Relational:
    """Loaded at once; `match` takes all publications in one statement."""

    def __init__(self, load: Load, engine: str) -> None:
        self._load = load
        self._sqlite = engine == "SQLite"
        self._pairs = bool((np.bincount(load.ids) > 1).any())
        equal = load.low == load.high
        self._parts: list[str] = []
        if self._sqlite:
            self._lite = sqlite3.connect(":memory:")
        else:
            self._duck = duckdb.connect(":memory:", config={"threads": 1})
        columns = ("subscription", "attribute")
        if equal.any():
            rows = (load.ids[equal], load.attributes[equal], load.low[equal])
            self._store("equalities", (*columns, "value"), rows, "attribute, value, subscription")
            self._parts.append(_EQUALITIES)
        if not equal.all() and self._is_boxes():
            low, high = load.low.reshape(-1, 2), load.high.reshape(-1, 2)
            sides = (load.ids[::2], low[:, 0], high[:, 0], low[:, 1], high[:, 1])
            self._store("boxes", ("subscription", "x0", "x1", "y0", "y1"), sides, "x0, x1, y0, y1, subscription")
            self._parts, self._pairs = [_BOXES], False
        elif not equal.all():
            other = ~equal
            rows4 = (load.ids[other], load.attributes[other], load.low[other], load.high[other])
            self._store("ranges", (*columns, "low", "high"), rows4, "attribute, low, high, subscription")
            self._parts.append(_RANGES)
        if self._pairs:
            needs = (np.arange(load.subscriptions), np.bincount(load.ids, minlength=load.subscriptions))
            self._store("needs", ("subscription", "predicates"), needs, "subscription, predicates")

    def _is_boxes(self) -> bool:
        """Each subscription a range on both of two attributes: one row, as a person would write it."""
        load = self._load
        return (
            len(load.names) == 2 and len(load.ids) == 2 * load.subscriptions and bool((load.attributes[::2] == 0).all())
        )

    def _store(self, table: str, names: tuple[str, ...], columns: tuple[I64, ...], index: str) -> None:
        if self._sqlite:
            self._lite.execute(f"CREATE TABLE {table} ({', '.join(f'{name} INTEGER' for name in names)})")
            places = ", ".join("?" * len(names))
            rows = zip(*(column.tolist() for column in columns), strict=True)
            self._lite.executemany(f"INSERT INTO {table} VALUES ({places})", rows)
            self._lite.execute(f"CREATE INDEX {table}_index ON {table} ({index})")
            self._lite.execute("ANALYZE")
        else:
            given = pa.table(dict(zip(names, columns, strict=True)))  # noqa: F841  (DuckDB finds it by name)
            self._duck.execute(f"CREATE TABLE {table} AS SELECT * FROM given")

    def match(self, rows: int) -> tuple[I64, I64]:
        values, carried = self._load.dense
        publication, attribute = np.nonzero(carried[:rows])
        value = values[:rows][publication, attribute]
        text = self._parts[0] if len(self._parts) == 1 else " UNION ALL ".join(self._parts)
        if self._pairs:
            text = (
                f"SELECT publication, h.subscription FROM (SELECT publication, subscription, count(*) AS n FROM ({text}) "
                "GROUP BY publication, subscription) h JOIN needs USING (subscription) WHERE n = predicates"
            )
        if self._sqlite:
            self._lite.execute("CREATE TEMP TABLE IF NOT EXISTS events (publication, attribute, value)")
            self._lite.execute("DELETE FROM events")
            together = zip(publication.tolist(), attribute.tolist(), value.tolist(), strict=True)
            self._lite.executemany("INSERT INTO events VALUES (?, ?, ?)", together)
            found: Any = np.array(self._lite.execute(text).fetchall(), np.int64).reshape(-1, 2)
            return found[:, 0], found[:, 1]
        events = pa.table({"publication": publication, "attribute": attribute, "value": value})
        self._duck.register("events", events)
        pairs = self._duck.execute(text).fetchnumpy()
        return pairs["publication"].astype(np.int64), pairs["subscription"].astype(np.int64)

    @property
    def nbytes(self) -> int:
        return 0

    @property
    def candidates(self) -> float | None:
        return None
