"""While a change of the routing goes on, the version that is being built lets the one in force go first.

Both run in one process. The new one has everything that is live to read, and would take all the time there is; nobody waits for it, while
everybody waits for the old one. So it computes one chunk at a time, and rests while the old one is late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

LATE: Final = 1.5  # seconds from a record's arrival to its being safe at the broker, that the version in force may take
REST: Final = 0.02  # seconds between two looks
LONGEST: Final = 1.0  # seconds that a chunk waits: clocks may differ, and then it always looks late
PIECE: Final = 2_000  # records of a chunk at most: what has begun is not interrupted


class Courtesy:
    """`guest`: is this the version that is being built? `delay`: of the version in force, in seconds."""

    def __init__(self, guest: Callable[[], bool], delay: Callable[[], float]) -> None:
        self.guest = guest
        self._delay = delay
        self._one = asyncio.Lock()

    async def __aenter__(self) -> None:
        await self._one.acquire()
        for _ in range(round(LONGEST / REST)):
            if not self.guest() or self._delay() < LATE:
                return
            await asyncio.sleep(REST)

    async def __aexit__(self, *_: object) -> None:
        self._one.release()
