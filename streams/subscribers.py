"""The live subscriptions of a partition, by handle: what a notification needs to know of its subscription.

A handle is a small integer that stands for one version of one subscription; the matching index knows subscriptions by it, so a new
version can stand beside the old one while a chunk is matched.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from schemas import Version


class Subscriber(NamedTuple):
    """One version of a subscription. `ends_at` is `schemas.NEVER` for none."""

    name: bytes
    recipient: bytes
    version: Version
    partitions: tuple[int, ...]
    topic: bytes
    starts_at: int
    ends_at: int
    self_join: bool
    needs_previous: bool
    always: bool


class Subscribers:
    def __init__(self) -> None:
        self._rows: list[Subscriber | None] = []
        self._free: list[int] = []
        self._handles: dict[bytes, int] = {}
        self.ends_at: npt.NDArray[np.int64] = np.empty(1024, np.int64)
        self.needing_previous = 0

    def __len__(self) -> int:
        return len(self._handles)

    def __getitem__(self, handle: int) -> Subscriber:
        row = self._rows[handle]
        if row is None:
            raise KeyError(handle)
        return row

    def names(self) -> Iterator[bytes]:
        """Ids of the subscriptions in force."""
        return iter(self._handles)

    def holds(self, handle: int, version: Version) -> bool:
        """Is this still the version in force?"""
        row = self._rows[handle] if handle < len(self._rows) else None
        return row is not None and row.version == version and self._handles.get(row.name) == handle

    def find(self, name: bytes) -> int | None:
        """The handle of the version in force."""
        return self._handles.get(name)

    def add(self, row: Subscriber) -> int:
        """A new version; the one before keeps its handle until it is released."""
        if self._free:
            handle = self._free.pop()
            self._rows[handle] = row
        else:
            handle = len(self._rows)
            self._rows.append(row)
            if handle == len(self.ends_at):
                self.ends_at = np.resize(self.ends_at, 2 * handle)
        self.ends_at[handle] = row.ends_at
        self.needing_previous += row.needs_previous
        self._handles[row.name] = handle
        return handle

    def retire(self, name: bytes) -> None:
        """No version is in force any more."""
        del self._handles[name]

    def release(self, handle: int) -> None:
        """Nothing refers to the handle any more."""
        self.needing_previous -= self[handle].needs_previous
        self._rows[handle] = None
        self._free.append(handle)
