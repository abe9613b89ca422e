"""What is done for a whole chunk at once is what it is one by one."""

from __future__ import annotations

import numpy as np
from aiokafka.partitioner import murmur2
from hypothesis import given, settings
from hypothesis import strategies as st

from pastforward.columns.texts import Texts
from pastforward.columns.times import SECOND
from pastforward.schemas import Version
from pastforward.streams.matcher.cold import FEW, Cold
from pastforward.streams.router.routes import Route, Routes, digest_of
from pastforward.streams.stages.outgoing import Outgoing, partition_of
from pastforward.streams.stages.packed import Packed

times = st.integers(-5 * SECOND, 60 * SECOND)


@settings(deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=20), max_size=20), st.integers(1, 50))
def test_keys_go_where_java_puts_them(keys: list[bytes], count: int) -> None:
    outgoing = Outgoing()
    outgoing.send_keyed("t", count, Texts.of(keys), keys)
    wanted: dict[tuple[str, int], list[tuple[bytes, bytes]]] = {}
    for key in keys:
        wanted.setdefault(("t", (murmur2(key) & 0x7FFFFFFF) % count), []).append((key, key))
        assert partition_of(key, count) == (murmur2(key) & 0x7FFFFFFF) % count
    assert dict(outgoing.outputs) == wanted


@settings(deadline=None)
@given(st.lists(st.tuples(times, times, times), max_size=30), st.lists(times, max_size=4))
def test_what_is_gone(publications: list[tuple[int, int, int]], horizons: list[int]) -> None:
    single, together = Cold(), Cold()
    columns = np.array(publications, np.int64).reshape(-1, 3).T
    for horizon in sorted(horizons):
        single.add(*(column.tolist() for column in columns))
        together.add_columns(*np.tile(columns, FEW + 1))  # a few would go one by one
        before = (together.published, together.expires)
        folds = together.folds(columns[0], horizon)
        single.fold(horizon)
        together.fold(horizon)
        assert (single.published, single.expires) == (together.published, together.expires)
        assert folds or before == (together.published, together.expires)


@settings(deadline=None)
@given(st.lists(st.none() | st.binary(max_size=8), min_size=1, max_size=10), st.data())
def test_texts_are_gathered(values: list[bytes | None], data: st.DataObject) -> None:
    rows = np.array(data.draw(st.lists(st.integers(0, len(values) - 1), max_size=12)), np.int64)
    wanted = [values[row] or b"" for row in rows.tolist()]
    packed = Packed.gather(Texts.of(values), rows)
    assert packed.list() == wanted
    assert [packed.text(i) for i in range(len(wanted))] == wanted
    assert Packed.of(wanted).list() == wanted


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 1 << 62),
    st.integers(0, 4095),
    st.integers(0, 1 << 62),
    st.lists(st.integers(0, 4095), unique=True, max_size=9),
    st.binary(),
    st.none() | st.integers(-(1 << 62), 1 << 62),
)
def test_routes_survive(
    arrived_at: int, partition: int, offset: int, partitions: list[int], value: bytes, ends_at: int | None
) -> None:
    outgoing = Outgoing()
    routes, restored = Routes("routes", 3), Routes("routes", 3)
    route = Route(Version(arrived_at, partition, offset), tuple(partitions), digest_of(value), ends_at)
    routes.put(b"s", route, outgoing)
    assert routes.get(b"s", 0) == route
    assert routes.unchanged(b"s", digest_of(value), 0)
    assert not routes.unchanged(b"s", digest_of(value + b"x"), 0)
    (logged,) = outgoing.changelog["routes", 3]
    restored.restore([_Record(*logged)])
    assert restored.get(b"s", 0) == route
    restored.restore([_Record(b"s", None)])
    assert restored.get(b"s", 0) is None
    assert len(restored) == 0


class _Record:
    def __init__(self, key: bytes | None, value: bytes | None) -> None:
        self.key, self.value = key, value
