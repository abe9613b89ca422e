"""Batches that are written by columns are those that aiokafka writes, record by record."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from pastforward.columns.texts import Texts
from pastforward.streams.stages import frames as frames_module
from pastforward.streams.stages import outgoing as outgoing_module
from pastforward.streams.stages.frames import Frame, by_key, frames
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
    for partition, rows in by_key(key, partitions):
        made[partition] += frames(key.take(rows), value.take(rows), limit)
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


def send(outgoing: Outgoing, keys: list[bytes], values: list[bytes], partitions: int) -> None:
    texts = Texts.of(values)
    outgoing.send_framed("t", partitions, Texts.of(keys), texts.length.astype(np.int64), texts.take)


def test_nothing_makes_no_frame() -> None:
    outgoing = Outgoing()
    send(outgoing, [], [], 3)
    assert (dict(outgoing.frames), outgoing.count) == ({}, 0)


def test_frames_are_joined_in_order() -> None:
    several = []
    for number in range(3):
        outgoing = Outgoing()
        send(outgoing, [b"k", b"k"], [b"%d" % number, b"more"], 2)
        several.append(outgoing)
    joined = Outgoing.joined(several)
    assert joined.count == 6
    assert told_in(joined, "t") == [b"0", b"more", b"1", b"more", b"2", b"more"]


@given(st.lists(st.tuples(keys, values), min_size=1, max_size=200), st.integers(1, 4), st.integers(1, 50_000))
@settings(max_examples=40, deadline=None)
def test_what_is_large_is_written_piece_by_piece(
    records: list[tuple[bytes, bytes]], partitions: int, piece: int
) -> None:
    """And is the same."""
    whole, pieces = Outgoing(), Outgoing()
    send(whole, *map(list, zip(*records, strict=True)), partitions)  # type: ignore[arg-type]
    asked: list[int] = []
    texts = Texts.of([value for _, value in records])

    def write(rows: npt.NDArray[np.int64]) -> Texts:
        asked.append(int(texts.length[rows].sum()) if len(rows) > 1 else 0)
        return texts.take(rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outgoing_module, "AT_ONCE", 0)
        patch.setattr(frames_module, "PIECE", piece)
        pieces.send_framed("t", partitions, Texts.of([key for key, _ in records]), texts.length.astype(np.int64), write)
        assert pieces.count == whole.count
        for place, frames_there in whole.frames.items():
            assert records_of(pieces.frames[place]) == records_of(frames_there)
    assert max(asked, default=0) <= piece
