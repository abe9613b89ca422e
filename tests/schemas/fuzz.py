"""Bytes that are almost a record: made of valid ones by a seeded generator."""

from __future__ import annotations

import random

INTERESTING = (b"\x00", b"\xff", b"\x80", b"\x7f", b'"', b"{", b"}", b"[", b"]", b"\\", b"\\u0000", b"\\ud800", b"null", b"-1", b"1e999",
               b"9" * 30, b"9" * 400, b"9" * 5000, b"\xc3\x01", b"\xff" * 10, b"\xfe\xff\xff\xff\x0f",
               b"\xed\xa0\x80", b"NaN", b"previous.")  # fmt: skip


def nested(depth: int, rng: random.Random) -> bytes:
    """JSON in which objects or lists are that deep, at a place where some record has a field."""
    inner, outer = rng.choice([(b"[", b"]"), (b'{"a":', b"}"), (b'{"disjuncts":[', b"]}"), (b'{"record":', b"}")])
    name = rng.choice(
        [b"attributes", b"where", b"record", b"best", b"value", b"subscription", b"covers", b"key", b"nobody"]
    )
    number = rng.choice([b"1", b"1e300", b"1" * 25])
    core = inner * depth + number + outer * depth
    return b'{"' + name + b'":' + core + rng.choice([b"", b"", b',"x":1e300']) + b"}"


def mutated(valid: bytes, rng: random.Random) -> bytes:
    data = bytearray(valid)
    match rng.randrange(9):
        case 0:
            return bytes(data[: rng.randrange(len(data) + 1)])
        case 1:
            return nested(rng.choice([5, 31, 32, 33, 40, 400, 600, 1_000, 1_023, 1_025, 5_000, 100_000]), rng)
        case 2:
            head = rng.choice([b"", b"{", valid[:10], b"\xc3\x01", b"\x00\x00\x00\x00\x01"])
            return head + rng.randbytes(rng.randrange(60))
    for _ in range(rng.choice([1, 1, 1, 2, 4, 8])):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(5):
            case 0 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 1 if at < len(data):
                data[at] = rng.randrange(256)
            case 2:
                data[at:at] = rng.choice(INTERESTING)
            case 3:
                del data[at : at + rng.randrange(1, 9)]
            case _:
                begin = rng.randrange(len(data) + 1)
                data[at:at] = data[begin : begin + rng.randrange(20)]
    return bytes(data)
