"""Time in a test."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from pastforward.client.moments import Instant
from pastforward.settings import parse_duration

START: Final = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z: the same in each run


def micros_of(span: str | timedelta) -> int:
    if isinstance(span, timedelta):
        return span // timedelta(microseconds=1)
    return parse_duration(span)


class Clock:
    """Stands still until it is turned. Kafka stamps milliseconds, and so does this."""

    def __init__(self, turned: Callable[[int], None]) -> None:
        """`turned` is called with the new time."""
        self._turned = turned
        self.micros = START

    @property
    def now(self) -> Instant:
        return Instant.of(self.micros)

    def advance(self, span: str | timedelta) -> None:
        """`"10m"`, or a timedelta."""
        self.micros += max(1000, micros_of(span) // 1000 * 1000)
        self._turned(self.micros)
