"""How fast conditions are read: from text of a known shape, from text of a new one, and from the structured form."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import thread_time
from typing import Final, NamedTuple, TypeVar

from pastforward.matching import Condition
from pastforward.matching.conditions.templates import forget_shapes

Given = TypeVar("Given")

LOADS: Final[dict[str, Callable[[int], str]]] = {
    "5 equalities": lambda i: f"a = {i} AND b = 'v{i}' AND c = {i + 3} AND d = 'x' AND e = {i}",
    "5 ranges": lambda i: " AND ".join(f"{name} BETWEEN {i} AND {i + 1000}" for name in "abcde"),
    "mixed, 2 disjuncts": lambda i: (
        f"kind = 'k{i}' AND severity >= {i} AND (lane IN (1, {i}) OR speed BETWEEN 0 AND {i}) AND NOT road LIKE 'I-{i}%'"
    ),
    "within a circle": lambda i: f"kind = 'k{i}' AND within(place, CIRCLE({i % 180}, {i % 90}, {i}))",
}


class Rate(NamedTuple):
    """Conditions a second of one thread's processor time, the best of the repetitions."""

    load: str
    known_shape: float
    first_parse: float
    structured: float


def measure(conditions: int = 5_000, first_parses: int = 200, repeat: int = 3) -> list[Rate]:
    rates = []
    for load, text_of in LOADS.items():
        texts = [text_of(i) for i in range(conditions)]
        structured = [Condition.parse(text).to_structured() for text in texts]
        rates.append(
            Rate(
                load,
                known_shape=max(_rate(Condition.parse, texts) for _ in range(repeat)),
                first_parse=max(_rate(_parse_anew, texts[:first_parses]) for _ in range(repeat)),
                structured=max(_rate(Condition.from_predicates, structured) for _ in range(repeat)),
            )
        )
    return rates


def _parse_anew(text: str) -> Condition:
    forget_shapes()
    return Condition.parse(text)


def _rate(read: Callable[[Given], Condition], given: list[Given]) -> float:
    began = thread_time()
    for one in given:
        read(one)
    return len(given) / (thread_time() - began)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    print(f"{'conditions a second':<22}{'known shape':>14}{'first parse':>14}{'structured':>14}")
    for rate in measure():
        print(f"{rate.load:<22}{rate.known_shape:>14,.0f}{rate.first_parse:>14,.0f}{rate.structured:>14,.0f}")


if __name__ == "__main__":
    main()
