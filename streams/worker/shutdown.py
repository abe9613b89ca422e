"""That a worker which has been told to end does end, whatever it waits for.

What is under way gets some seconds to come to its end in order. Whoever waits for a broker that is not there would wait for ever: then the
process is cut off. That is no worse than a kill, through which nothing is lost: what was not committed is done again by the next owner.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Final

log = logging.getLogger("pastforward.worker")

GRACE: Final = 12.0  # seconds; whoever supervises a worker gives it 15 or more
AWAY: Final = 2.0  # the same without a broker: files are closed by then, and nothing else can be done in order
LOOK: Final = 0.1  # seconds


class Ending:
    """`away` tells whether the broker is. Everything may be called more than once: what came first counts."""

    def __init__(self, away: Callable[[], bool], leave: Callable[[int], object] = os._exit) -> None:
        self._away, self._leave = away, leave
        self._thread: threading.Thread | None = None
        self.failed = False

    @property
    def begun(self) -> bool:
        return self._thread is not None

    def begin(self, *, failed: bool) -> None:
        """From now on the time runs, in a thread: the event loop may be what does not go on."""
        if self._thread is None:
            self.failed = failed
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def _run(self) -> None:
        began = time.monotonic()
        end = began + GRACE
        away = False
        while (now := time.monotonic()) < end:
            if not away and self._away():
                away, end = True, min(end, now + AWAY)
            time.sleep(LOOK)
        why = "the broker is away" if away else "what is under way has not come to its end"
        log.warning(
            "cut off %.0f s after it was to end: %s; what was not committed is done again after the next start",
            now - began,
            why,
        )
        self._leave(1 if self.failed or not away else 0)
