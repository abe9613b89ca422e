"""A line on the terminal that says what a worker does, a second at a time."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any, Final

from pastforward.streams.stages.metrics import Metrics
from pastforward.streams.worker.host import Host

CLEAR: Final = "\r\x1b[2K"  # to the begin of the line, and erase it
SECONDS: Final = 1.0


class Status:
    def __init__(self, metrics: Metrics, host: Host) -> None:
        self._metrics, self._host = metrics, host
        self._before = (time.monotonic(), 0.0, 0.0)

    def line(self) -> str:
        """Rates are those since the last call."""
        now, records, notifications = (
            time.monotonic(),
            self._metrics.total("records"),
            self._metrics.total("notifications"),
        )
        then, records_before, notifications_before = self._before
        self._before = (now, records, notifications)
        passed = max(now - then, 1e-6)
        owned = len(self._host.positions)
        if not self._host.ready:
            return "waiting for partitions, or recovering them"
        return (
            f"{owned} partitions  {(records - records_before) / passed:,.0f} records/s  "
            f"{(notifications - notifications_before) / passed:,.0f} notifications/s  lag {self._host.lag():,}  "
            f"dead letters {self._metrics.total('dead_letters'):,.0f}"
        )


def show_status(app: Any, status: Status) -> None:
    @app.task
    async def show() -> None:
        try:
            while True:
                sys.stderr.write(CLEAR + status.line())
                sys.stderr.flush()
                await asyncio.sleep(SECONDS)
        finally:
            sys.stderr.write(CLEAR)
            sys.stderr.flush()
