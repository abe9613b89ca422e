"""Ids by the chunk are those that are made one by one."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pastforward.streams.stages import sha256


@pytest.mark.parametrize("block", [sha256.plain_block, sha256._block])
def test_blocks(block: object) -> None:
    state = np.empty(8, np.uint32)
    for size in (0, 1, 55, 56, 63, 64, 65, 119, 120, 1_000):
        text = bytes(range(256)) * 4
        padded = text[:size] + b"\x80" + bytes((55 - size) % 64) + (8 * size).to_bytes(8, "big")
        data = np.frombuffer(bytearray(padded), np.uint8)
        state[:] = sha256._BEGIN
        for at in range(0, len(data), sha256.BLOCK):
            block(state, data, np.int64(at))  # type: ignore[operator]
        assert state.astype(">u4").tobytes() == hashlib.sha256(text[:size]).digest()


@given(st.binary(max_size=300), st.binary(min_size=450, max_size=450))
@settings(max_examples=200, deadline=None)
def test_digests(text: bytes, before: bytes) -> None:
    """Whatever the scratch held before."""
    scratch = np.frombuffer(bytearray(before), np.uint8)
    scratch[: len(text)] = np.frombuffer(text, np.uint8)
    out = np.zeros(sha256.ID + 7, np.uint8)
    sha256.put_digest(scratch, np.int64(len(text)), np.empty(8, np.uint32), out, np.int64(7))
    assert out[7:].tobytes().decode() == hashlib.sha256(text).hexdigest()[: sha256.ID]
