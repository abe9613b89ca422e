"""A search of the past: what subscriptions find among the publications that were held when they came.

A search is a snapshot. It is made right after the `apply_columns` that took the subscriptions. Its pieces may be taken then or later, after
further `apply`, `commit` and `tick` calls: it answers as of each subscription's place in the log, whatever has come or expired since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias

from pastforward.state.found import PIECE, PIECE_BYTES, PIECE_PAIRS, Past

BOOLEAN: Final = 1
NUMBER: Final = 2
TIMESTAMP: Final = 3
TEXT: Final = 4
"""Families of values that a `Range` may speak of."""

Bound: TypeAlias = int | float | bytes | None


class Range(NamedTuple):
    """A value of this family between two bounds, both of them in; None: no bound. NaN is in none. Texts are UTF-8."""

    family: int
    low: Bound
    high: Bound


class Predicate(NamedTuple):
    """What the value of an attribute must be: in one of the ranges. No range at all: any value will do, of any type."""

    attribute: str
    ranges: tuple[Range, ...]


class Filter(NamedTuple):
    """What a publication must satisfy, to be worth a look: one of `disjuncts`, and of it every predicate. It may let through more than the
    condition does, never less: who asks verifies what is found.

    `absent`: a publication without the attribute passes.
    """

    disjuncts: tuple[tuple[Predicate, ...], ...]
    absent: bool = False


EVERYTHING: Final = Filter(((),))


@dataclass(frozen=True, slots=True)
class Limits:
    """Of a piece, at most; a single block or publication may exceed them."""

    blocks: int = 64  # read, of 4,096 publications each: some 10 ms
    publications: int = PIECE  # found
    nbytes: int = PIECE_BYTES
    pairs: int = PIECE_PAIRS


PIECES: Final = Limits()


class Search(Protocol):
    """Made by `Store.search`; used by the store's thread alone. It must come to its end or be closed, before the store is.

    What it holds in memory is bounded, however much it finds. The latest publications come first, by slices: within a piece they have no
    order. A publication is in one piece, with all the subscriptions of this search that have found it.
    """

    @property
    def done(self) -> bool:
        """There is no further piece."""
        ...

    def take(self, limits: Limits | None = None) -> Past | None:
        """The next piece, bounded by `PIECES` if not otherwise. It may be empty: what has been read held nothing. None when all has been
        read."""
        ...

    def close(self) -> None:
        """Gives up what is left. Closing again does nothing."""
        ...
