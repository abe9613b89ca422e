"""Bounds on what may come in, each with its reason."""

from __future__ import annotations

from typing import Final

from pastforward.columns import dewey
from pastforward.matching.conditions import limits as conditions

# An id is part of keys on disk and of every notification: long enough for any URL, short enough to be copied about.
MAX_ID_BYTES: Final = 512

# Ids of publications that came without one begin so, and no others: nobody can take them before.
MADE_UP: Final = "~"

# Kafka's own default for a message. Larger things belong elsewhere, with their address in the record.
MAX_RECORD_BYTES: Final = 1 << 20

# `max.message.bytes` of the rendezvous and dead-letter topics is 4 MiB; what surrounds the value gets 64 KiB.
MAX_CANONICAL_BYTES: Final = (4 << 20) - (64 << 10)

# `max.message.bytes` of the notifications topic is 12 MiB. A notification carries what a record of 1 MiB holds, in JSON up to seven times
# that (a control character has six bytes there, and a time a name), and beside it the value of a best offer.
MAX_NOTIFICATION_BYTES: Final = (12 << 20) - (64 << 10)

# What a canonical record may have without the list of the partitions it goes to, which is at most two bytes for each of 4,096: so
# whether a record is accepted does not depend on the number of partitions.
MAX_ACCEPTED_BYTES: Final = MAX_CANONICAL_BYTES - (16 << 10)

# In JSON the bytes of a dead letter are base64, a third longer: 2 MiB stay below 4. Key and value have half of it each.
MAX_DEAD_LETTER_BYTES: Final = 2 << 20

# The Kafka key of a dead letter: whole for whatever somebody may take for an id, and far below what a message may have.
MAX_DEAD_LETTER_KEY_BYTES: Final = 64 << 10

# UTF-8 bytes of the reason in a dead letter: it may show parts of the record.
MAX_REASON_BYTES: Final = 4096

# Objects and lists of JSON within each other. Our own records need ten; Python's functions recurse at most 1,000 deep.
MAX_NESTING: Final = 32

# UTF-8 bytes of an attribute's name, as in conditions.
MAX_NAME_BYTES: Final = conditions.MAX_NAME_BYTES

# A quad tree of the world has cells of four metres at depth 24. Ancestors cost a look-up each.
MAX_PATH_DEPTH: Final = dewey.MAX_DEPTH

# A component fits the signed 64-bit integers of every client.
MAX_PATH_COMPONENT: Final = dewey.MAX_COMPONENT
