"""Arrays that grow: room that is not used takes no memory, whatever the allocator has at hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pastforward.columns.growing import CACHE_LINE, aligned, longer
from pastforward.matching.index.memory import give_back


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_room_takes_no_memory_until_it_is_used() -> None:
    # what has been used and freed again is what an allocator hands out first, below a limit that follows what is freed
    large = [np.ones(30 << 20, np.uint8)]
    large.clear()
    large = [np.ones(20 << 20, np.uint8) for _ in range(9)]
    last = large.pop()
    large.clear()
    give_back()
    before = resident()
    room = aligned(100 << 20, np.uint8)
    assert resident() - before < 10 << 20
    assert not room[:: 1 << 20].any()
    assert len(last) == 20 << 20


def test_longer_is_the_same_and_zeros() -> None:
    for size, room in ((0, 5), (5, 5), (5, 100), (1000, 3 << 20)):
        for kind in (np.uint8, np.int32, np.uint64):
            array = np.arange(size).astype(kind)
            more = longer(array, room)
            assert more.dtype == kind
            assert len(more) == room
            assert more.flags.writeable
            assert more.__array_interface__["data"][0] % CACHE_LINE == 0
            assert (more[:size] == array).all()
            assert not more[size:].any()
