"""What an algorithm is: it keeps slots in structures of its own and finds candidates for a batch of publications.

The registry knows what each slot asks (`matching.index.records.constraints`); an algorithm need not be exact: it may name too many
candidates, never too few, and never the same pair twice. The index verifies them, drops repeated subscriptions, and keeps apart what no
algorithm of the papers speaks of: slots of the semantics `symmetric` and `intersect`, and publications with conditions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from pastforward.matching.index.batch import Batch
from pastforward.matching.index.registry import Registry

I32 = npt.NDArray[np.int32]


class Algorithm(ABC):
    """One writer calls `insert` and `remove`, never while `candidates` runs; many readers may call `candidates` at a time, so it
    changes nothing that another reader sees, but for statistics that may be lost."""

    name: ClassVar[str]
    takes_conditions: ClassVar[bool] = False  # rows that are vague; else the index scans for those

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    @abstractmethod
    def insert(self, slots: I32) -> None:
        """New slots; their records are in the registry."""

    @abstractmethod
    def remove(self, slots: I32) -> None:
        """Slots to forget; their records are still in the registry, and go right after."""

    @abstractmethod
    def candidates(self, batch: Batch) -> tuple[I32, I32]:
        """Rows and slots of pairs: all that match under `classical`, no pair twice. No row of the batch is vague."""

    def counters(self) -> dict[str, int | float]:
        """What the algorithm has done so far, for explanations and metrics."""
        return {}

    @property
    def nbytes(self) -> int:
        """Memory of its own structures."""
        return 0

    @property
    def wasted(self) -> int:
        """Bytes of that which nothing is in; 0 if it does not keep count."""
        return 0
