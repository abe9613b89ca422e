"""Bounds on what may come in, each with its reason."""

from __future__ import annotations

from typing import Final

# An id is part of keys on disk and of every notification: long enough for any URL, short enough to be copied about.
MAX_ID_BYTES: Final = 512

# Kafka's own default for a message. Larger things belong elsewhere, with their address in the record.
MAX_RECORD_BYTES: Final = 1 << 20

# `max.message.bytes` of the rendezvous and dead-letter topics is 4 MiB; what surrounds the value gets 64 KiB.
MAX_CANONICAL_BYTES: Final = (4 << 20) - (64 << 10)

# In JSON the bytes of a dead letter are base64, a third longer: 2 MiB stay below 4.
MAX_DEAD_LETTER_BYTES: Final = 2 << 20

# A quad tree of the world has cells of four metres at depth 24. Ancestors cost a look-up each.
MAX_PATH_DEPTH: Final = 64

# A component fits the signed 64-bit integers of every client.
MAX_PATH_COMPONENT: Final = 2**63 - 1

# The years 1 to 9999, which RFC 3339 and Python can write.
MIN_TIME: Final = -62_135_596_800_000_000
MAX_TIME: Final = 253_402_300_799_999_999
