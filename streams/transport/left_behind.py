"""Errors of requests that nobody waits for any more: a producer that is given up leaves them behind when its broker is away.

aiokafka starts a task for each request and forgets those that are under way when its sender ends; asyncio then complains, with a traceback,
that their exceptions were never retrieved. What ends a producer that is in use is found by `producer.failure_of`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from aiokafka.errors import KafkaError

log = logging.getLogger("pastforward.transport")


def pass_over(loop: asyncio.AbstractEventLoop) -> None:
    """From here on such errors of Kafka's are noted for those who look for them only; all others are asyncio's to tell."""
    loop.set_exception_handler(_handle)


def _handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if isinstance(error, KafkaError) and "never retrieved" in str(context.get("message")):
        log.debug("of a request that nobody waits for: %r", error)
    else:
        loop.default_exception_handler(context)
