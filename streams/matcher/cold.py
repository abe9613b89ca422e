"""What a partition once had and does not hold any more, so that the history answers: has a subscription anything to ask of it?

Publications are counted by the second they are held at, and folded into one pair of times once that second lies before the horizon. So
a subscription may be sent to the history for nothing, at the border of a second, but never is it kept from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.times import FARTHEST, SECOND

Times = npt.NDArray[np.int64]

NOT_YET: Final = -FARTHEST  # earlier than any time that a record may carry
FOREVER: Final = FARTHEST  # later
FEW: Final = 64  # up to which one by one is quicker than by columns


class Cold:
    """`published` and `expires`: the latest `published_at` and `expires_at` among what is folded."""

    def __init__(self, published: int = NOT_YET, expires: int = NOT_YET) -> None:
        self.published = published
        self.expires = expires
        self._seconds: dict[int, tuple[int, int]] = {}
        self._folded: int | None = None  # up to which second all is folded

    def add(self, held_at: Iterable[int], published_at: Iterable[int], expires_at: Iterable[int]) -> None:
        seconds = self._seconds
        for held, published, expires in zip(held_at, published_at, expires_at, strict=True):
            second = held // SECOND
            known = seconds.get(second, (NOT_YET, NOT_YET))
            seconds[second] = (max(known[0], published), max(known[1], min(expires, FOREVER)))
        self._folded = None

    def add_columns(self, held_at: Times, published_at: Times, expires_at: Times) -> None:
        """The same for many at once."""
        if len(held_at) <= FEW:
            if len(held_at):
                self.add(held_at.tolist(), published_at.tolist(), expires_at.tolist())
            return
        second, at = np.unique(held_at // SECOND, return_inverse=True)
        latest = np.full((2, len(second)), NOT_YET, np.int64)
        np.maximum.at(latest[0], at, published_at)
        np.maximum.at(latest[1], at, np.minimum(expires_at, FOREVER))
        for one, published, expires in zip(second.tolist(), *latest.tolist(), strict=True):
            known = self._seconds.get(one, (NOT_YET, NOT_YET))
            self._seconds[one] = (max(known[0], published), max(known[1], expires))
        self._folded = None  # late ones may lie before the horizon

    def fold(self, horizon: int) -> None:
        """Everything held before the horizon is cold. Horizons never go back."""
        last = -(-horizon // SECOND)
        if last == self._folded:
            return
        self._folded = last
        for second in [second for second in self._seconds if second < last]:
            published, expires = self._seconds.pop(second)
            self.published = max(self.published, published)
            self.expires = max(self.expires, expires)

    def folds(self, held_at: Times, horizon: int) -> bool:
        """Would a horizon fold any of these?"""
        return bool(len(held_at)) and int(held_at.min()) // SECOND < -(-horizon // SECOND)

    def copy(self) -> Cold:
        made = Cold(self.published, self.expires)
        made._seconds, made._folded = dict(self._seconds), self._folded
        return made

    def asked_by_any(self, starts_at: Times, valid: npt.NDArray[np.bool_], now: Times) -> bool:
        """`asked_by`, of many at once."""
        asked = np.where(valid, starts_at < self.expires, starts_at <= self.published)
        return bool((asked & (now < self.expires)).any())

    def asked_by(self, starts_at: int, valid: bool, now: int) -> bool:
        """May something that is cold, and has not expired, lie in a window that begins then?"""
        if self.expires <= now:
            return False
        return starts_at < self.expires if valid else starts_at <= self.published
