"""Moments in what is asked: as on the topics, and relative to now."""

from __future__ import annotations

from typing import Any, Final

from pastforward.client.moments import Instant, micros, now_micros

NOW: Final = "now"


def moment_of(given: Any, name: str) -> int | None:
    """Microseconds since 1970 as an integer, RFC 3339, `now`, or from now: `-10m`, `+1h`."""
    if given is None or given == "":
        return None
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    return now_micros() if given == NOW else micros(given, None, name)


def instant_of(given: Any, name: str) -> Instant | None:
    found = moment_of(given, name)
    return None if found is None else Instant.of(found)


def with_moments(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    """The fields with integers for the times that are texts."""
    return {
        name: moment_of(each, name) if name in names and isinstance(each, str) else each
        for name, each in fields.items()
    }
