"""Partitions and stores depend on these numbers for ever."""

from __future__ import annotations

import numpy as np
import pytest

from pastforward.columns import hashing
from pastforward.columns.texts import Texts

TEXTS = (b"", b"a", "Straße 12".encode(), bytes(range(256)))
OF_INDEX = (0, 18119689086777206668, 12848908533072261790, 3509395459700425337)
OF_STORE = (8442584544778250395, 198367012849983736, 8650378843015426156, 8009238455747289058)
OF_NAMES = (12345, 7501898947066714516, 15343214833658156066, 3378786950274856652)
OF_ROUTING = (16294208416658607535, 3187963305867457774, 8876311664309860045)
MURMUR2 = {b"21": -973932308, b"foobar": -790332482, b"abc": 479470107, b"": 275646681}  # from Kafka's own tests


@pytest.mark.parametrize("number", range(len(TEXTS)))
def test_bytes(number: int) -> None:
    data = np.frombuffer(bytearray(TEXTS[number]), np.uint8)
    with np.errstate(over="ignore"):
        assert hashing.hash_text.py_func(data, 0, len(data)) == OF_INDEX[number]
    assert hashing.hash_id(data, 0, len(data)) == OF_STORE[number]
    assert hashing.hash_name(data, 0, len(data), np.uint64(12345)) == OF_NAMES[number]


@pytest.mark.parametrize(("number", "mixed"), [(0, 0), (1, 6238072747940578789), (2**63 + 5, 5517130817076012570)])
def test_numbers(number: int, mixed: int) -> None:
    assert hashing.mix(np.uint64(number)) == mixed
    assert hashing.mix_positive(np.uint64(number)) == mixed & (2**63 - 1)


def test_routing() -> None:
    assert tuple(map(hashing.text_hash, ("", "a", "Straße 12"))) == OF_ROUTING
    assert hashing.text_hashes(Texts.of(TEXTS[:3])).tolist() == list(OF_ROUTING)
    assert (hashing.spread(0), hashing.spread(2**64 - 1)) == (16294208416658607535, 16490336266968443936)
    assert hashing.combine(hashing.combine(0, 7), -1) == 9732432399678934040


def test_partitions_of_kafka() -> None:
    found = np.empty(len(MURMUR2), np.int32)
    hashing.partitions_of(*Texts.of(list(MURMUR2)).for_kernel(), 2**31 - 1, found)
    assert found.tolist() == [number & 0x7FFFFFFF for number in MURMUR2.values()]
