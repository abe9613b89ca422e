"""Batches that are written by columns are those that aiokafka writes, record by record."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from pastforward.schemas import Texts
from pastforward.streams.stages.frames import Frame, frames
from pastforward.streams.stages.outgoing import Outgoing, partition_of
from pastforward.streams.transport.producer import Framed
from tests.streams.framed import records_of, told_in

keys = st.binary(min_size=1, max_size=20) | st.sampled_from([b"anna", b"k" * 70, b"k" * 9_000])
values = st.binary(max_size=40) | st.integers(0, 20_000).map(lambda size: b"v" * size)


def builder_of(limit: int, state: tuple[int, int, int], transactional: bool) -> Any:
    return DefaultRecordBatchBuilder(2, 0, int(transactional), *state, limit)


@given(
    st.lists(st.tuples(keys, values), min_size=1, max_size=300),
    st.integers(1, 5),
    st.sampled_from([100, 1_000, 1 << 20]),
    st.tuples(st.integers(-1, 2**62), st.integers(-1, 2**14), st.integers(0, 2**30)),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_frames_are_the_batches_of_aiokafka(
    records: list[tuple[bytes, bytes]], partitions: int, limit: int, state: tuple[int, int, int], transactional: bool
) -> None:
    made: defaultdict[int, list[Frame]] = defaultdict(list)
    key, value = Texts.of([key for key, _ in records]), Texts.of([value for _, value in records])
    for partition, frame in frames(key, value, partitions, limit):
        made[partition].append(frame)
    for partition in range(partitions):
        wanted = [record for record in records if partition_of(record[0], partitions) == partition]
        assert records_of(made[partition]) == wanted
        begin = 0
        for frame in made[partition]:
            batch = Framed(frame, transactional=transactional)
            batch._set_producer_state(*state)
            assert batch.size() == len(frame.data)
            builder = builder_of(limit, state, transactional)
            for number, record in enumerate(wanted[begin : begin + frame.count]):
                assert builder.append(number, batch._made_at, *record, []) is not None
            begin += frame.count
            if begin < len(wanted):
                assert builder.append(frame.count, batch._made_at, *wanted[begin], []) is None
            assert bytes(batch._build()) == bytes(builder.build())
            assert batch._build() is batch._build()
            assert (batch.record_count(), batch.closed()) == (frame.count, True)


def test_nothing_makes_no_frame() -> None:
    outgoing = Outgoing()
    outgoing.send_framed("t", 3, Texts.of([]), Texts.of([]))
    assert (dict(outgoing.frames), outgoing.count) == ({}, 0)


def test_frames_are_joined_in_order() -> None:
    several = []
    for number in range(3):
        outgoing = Outgoing()
        outgoing.send_framed("t", 2, Texts.of([b"k", b"k"]), Texts.of([b"%d" % number, b"more"]))
        several.append(outgoing)
    joined = Outgoing.joined(several)
    assert joined.count == 6
    assert told_in(joined, "t") == [b"0", b"more", b"1", b"more", b"2", b"more"]
