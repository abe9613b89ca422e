"""How much each identity may ask for: requests a second by a bucket of tokens, and connections that listen."""

from __future__ import annotations

import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pastforward.gateway.options import Limits
from pastforward.gateway.problems import Problem

KNOWN: Final = 100_000  # identities; of those beyond, whoever has asked longest ago begins anew
BURST: Final = 2.0  # seconds' worth of requests that may come at once


class Throttle:
    """Belongs to the event loop's thread."""

    def __init__(self, limits: Limits, now: Callable[[], float] = time.monotonic) -> None:
        self._limits, self._now = limits, now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, and when
        self._streams: Counter[str] = Counter()

    def take(self, name: str, cost: float = 1.0) -> None:
        """One request; raises a problem that says when to come again."""
        rate = self._limits.requests_a_second
        if not rate:
            return
        most = max(1.0, rate * BURST)
        now = self._now()
        tokens, at = self._buckets.pop(name, (most, now))
        tokens = min(most, tokens + (now - at) * rate)
        if tokens < cost:
            self._buckets[name] = (tokens, now)
            wait = math.ceil((cost - tokens) / rate)
            detail = f"at most {rate:g} requests a second are taken from you: come again in {wait} s"
            raise Problem(429, "too-many", detail, {"Retry-After": str(wait)}, limit=rate)
        self._buckets[name] = (tokens - cost, now)
        while len(self._buckets) > KNOWN:
            self._buckets.popitem(last=False)

    @contextmanager
    def stream(self, name: str) -> Iterator[None]:
        """While a connection listens."""
        most = self._limits.streams
        if most and self._streams[name] >= most:
            detail = f"you have {most} connections that listen, as many as are taken from you: close one first"
            raise Problem(429, "too-many", detail, {"Retry-After": "10"}, limit=most)
        self._streams[name] += 1
        try:
            yield
        finally:
            self._streams[name] -= 1
            if not self._streams[name]:
                del self._streams[name]

    def check_subscriptions(self, held: int, more: int = 1) -> None:
        most = self._limits.subscriptions
        if most and held + more > most:
            detail = f"you hold {held} subscriptions, and at most {most} are taken from you: end some first"
            raise Problem(429, "too-many", detail, {"Retry-After": "60"}, limit=most)
