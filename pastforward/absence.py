"""Says that a broker is away: once, then at growing intervals, and once when it is back.

The Kafka clients say it with every attempt, which are hundreds a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

FIRST: Final = 5.0  # seconds until it is said again; then twice as many each time
MOST: Final = 300.0


class Absence:
    """`say` is called with a line. Whoever looks tells what was seen, as often as it likes."""

    def __init__(
        self, who: str, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic, *, waits: str = ""
    ) -> None:
        self._who, self._say, self._clock = who, say, clock
        self._then = f"; {waits}" if waits else ""
        self._since: float | None = None
        self._wait = self._due = 0.0

    @property
    def away(self) -> bool:
        return self._since is not None

    def missed(self, reason: str) -> None:
        now = self._clock()
        if self._since is None:
            self._since, self._wait = now, FIRST
            self._say(f"{self._who} does not answer: {reason}{self._then}")
        elif now >= self._due:
            self._wait = min(2 * self._wait, MOST)
            self._say(f"{self._who} has not answered for {now - self._since:.0f} s: {reason}")
        else:
            return
        self._due = now + self._wait

    def answered(self) -> None:
        if self._since is not None:
            self._say(f"{self._who} answers again, after {self._clock() - self._since:.0f} s")
            self._since = None
