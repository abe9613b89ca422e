"""Compiles every kernel of this package, by using each once."""

from __future__ import annotations

from pastforward.matching.index.index import Index


def compile_pubsub() -> None:
    for structure in ("rbpst", "interval", "suffix", "aho-corasick"):
        index = Index(algorithm="pubsub", structure=structure, bucket_size=1)
        # parts from a neighbour, finds the same predicate, gives way, and grows
        for number, condition in enumerate(
            ("a = 1 AND b = 1", "a = 2", "a = 2", "a = 1", "a = 1", "a LIKE '%x%'", "a LIKE '%xy%'", "a LIKE '%xz%'")
        ):
            index.add(number, condition)
        index.match({"a": 1, "b": 1})
        index.match({"a": "xy"})
        index.remove_many(range(8))
