"""An endless log that is a function of its seed, and the ends of its batches."""

from __future__ import annotations

import random
from typing import Any


def size_of_batch(seed: int, offset: int) -> int:
    return random.Random(f"{seed} size {offset}").randint(2, 60)


def operation(seed: int, offset: int) -> dict[str, Any]:
    chance = random.Random(f"{seed} operation {offset}")
    time = offset * 10
    kind = chance.choice(["subscription", "subscription", "publication", "publication", "withdrawal"])
    row: dict[str, Any] = {"kind": kind, "id": chance.randrange(400), "time": time, "topic": ""}
    if kind == "publication":
        row["id"] = offset
        row["expires_at"] = time + chance.randrange(1, 6000)
    if kind == "subscription":
        row["starts_at"] = time - chance.randrange(3000)
        row["ends_at"] = time + chance.randrange(3000)
    row["topic"] = ".".join(str(chance.randrange(1, 4)) for _ in range(chance.randrange(4)))
    row["payload"] = chance.randbytes(chance.randrange(80))
    return row


def operations_from(seed: int, offset: int, count: int) -> list[dict[str, Any]]:
    return [operation(seed, number) for number in range(offset, offset + count)]
