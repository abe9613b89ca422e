"""Texts by handle, against a dict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pastforward.columns.texts import Texts
from pastforward.streams.matcher import heap as module
from pastforward.streams.matcher.heap import Heap

texts = st.binary(min_size=1, max_size=40)


@given(st.lists(st.one_of(st.lists(texts, min_size=1, max_size=6), st.integers(0, 20)), max_size=40))
@settings(max_examples=100, deadline=None)
def test_texts_stay_where_others_go(steps: list[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SPARE", 16)
        heap, held, handed_out = Heap(1), {}, []
        free = list(range(300, -1, -1))
        for step in steps:
            if isinstance(step, list):
                handles = [free.pop() for _ in step]
                heap.room(max(handles) + 1)
                heap.put(np.array(handles, np.int64), Texts.of(step))
                held |= dict(zip(handles, step, strict=True))
            else:
                gone = list(held)[:step]
                heap.drop(gone)
                free += gone
                for handle in gone:
                    del held[handle]
            there = np.array(list(held), np.int64)
            handed_out.append((heap.texts(there), list(held.values())))
            assert [heap[handle] for handle in held] == list(held.values())
        for given_, wanted in handed_out:
            assert list(given_) == wanted


def test_what_is_gone_gives_its_memory_back() -> None:
    heap = Heap(1)
    for number in range(200):
        handles = np.arange(1_000 * number, 1_000 * number + 1_000)
        heap.room(1_000 * number + 1_000)
        heap.put(handles, Texts.of([b"x" * 100] * 1_000))
        if number:
            heap.drop((handles - 1_000).tolist())
    assert len(heap._data) < 2_000_000
