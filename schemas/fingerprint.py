"""CRC-64-AVRO, the Rabin fingerprint of the Avro specification."""

from __future__ import annotations

from typing import Final

_EMPTY: Final = 0xC15D213AA4D7A795


def _table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (_EMPTY if value & 1 else 0)
        table.append(value)
    return table


_TABLE: Final = _table()


def crc_64_avro(data: bytes) -> int:
    crc = _EMPTY
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc
