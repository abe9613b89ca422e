"""Whether the broker answers, in a worker's log: a line when it goes, a few while it is away, a line when it is back.

aiokafka says it with every attempt: a hundred lines a second. So whatever it complains of is held back for the moment that it takes to
ask the broker ourselves. If that does not answer, this is what is said; if it does, the complaint is of something else, and is handed on:
once, and again at growing intervals.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaConnectionError, KafkaError

from pastforward.absence import FIRST, MOST, Absence
from pastforward.streams.transport.connection import Connection

log = logging.getLogger("pastforward.worker")

CLIENT: Final = "aiokafka"
OTHERS: Final = ("faust", "mode")
REPHRASED: Final = (
    "Crashed reason",
    "We experienced a crash",
    "Error: ",
)  # of which the worker says more, in fewer lines
REFUSED: Final = (
    "Attempt to join group failed due to fatal error"  # then aiokafka does nothing any more, and says no more
)
PATIENCE: Final = 5.0  # seconds for an answer; a broker that is busy has needed one
PAUSE: Final = 1.0  # seconds until it is asked again

Ask = Callable[[], Awaitable[None]]
Emit = Callable[[logging.LogRecord], None]


class RepeatedLines:
    """Lets the first of a kind of message through, then one at growing intervals."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next: dict[tuple[str, str], tuple[float, float]] = {}  # by kind: when, and how long after that

    def passes(self, record: logging.LogRecord) -> bool:
        kind, now = (record.name, str(record.msg)), self._clock()
        due, wait = self._next.get(kind, (0.0, FIRST))
        if now < due:
            return False
        if now > due + MOST:
            wait = FIRST  # it has been quiet for long
        self._next[kind] = (now + wait, min(2 * wait, MOST))
        return True


class BrokerWatch(logging.Filter):
    """A filter of the log's handlers, and a task that asks the broker whenever there is reason to. `emit`: where held lines go."""

    def __init__(self, ask: Ask, absence: Absence, emit: Emit) -> None:
        super().__init__()
        self._ask, self._absence, self._emit = ask, absence, emit
        self._repeated = RepeatedLines()
        self._held: list[logging.LogRecord] = []
        self._alarm = asyncio.Event()
        self.refused: Callable[[str], None] = log.error  # called when Kafka will never take this worker into its group

    @property
    def away(self) -> bool:
        return self._absence.away

    def filter(self, record: logging.LogRecord) -> bool:
        name = record.name.partition(".")[0]
        if name in OTHERS:
            return not any(text in record.getMessage() for text in REPHRASED) and self._repeated.passes(record)
        if name != CLIENT:
            return True
        if record.getMessage().startswith(REFUSED):
            self.refused(record.getMessage().partition(": ")[2])
            return False
        if not self.away and self._repeated.passes(record):
            self._held.append(record)
        self._alarm.set()
        return False

    def alarm(self) -> None:
        """There is reason to ask."""
        self._alarm.set()

    async def run(self) -> None:
        while True:
            await self._alarm.wait()
            await self.look()
            await asyncio.sleep(PAUSE)

    async def look(self) -> None:
        """Asks once. As long as there is no answer there is reason to ask again."""
        self._alarm.clear()
        try:
            async with asyncio.timeout(PATIENCE):
                await self._ask()
        except TimeoutError:
            self._missed(f"nothing came within {PATIENCE:.0f} s")
        except KafkaConnectionError:
            self._missed("no connection")
        except (KafkaError, OSError) as error:
            self._missed(str(error))
        else:
            held, self._held = self._held, []
            for record in held:
                self._emit(record)
            self._absence.answered()

    def _missed(self, reason: str) -> None:
        self._held.clear()
        self._absence.missed(reason)
        self._alarm.set()


async def ask(connection: Connection) -> None:
    client = AIOKafkaClient(**connection.arguments())
    try:
        await client.bootstrap()
    finally:
        await client.close()


def watch(connection: Connection) -> BrokerWatch:
    """To be called before the event loop runs; from then on the handlers of the log pass over what is said too often."""

    def emit(record: logging.LogRecord) -> None:
        for handler in logging.getLogger().handlers:
            handler.emit(record)

    absence = Absence(f"Kafka at {connection.bootstrap}", log.warning, waits="the worker waits for it")
    made = BrokerWatch(lambda: ask(connection), absence, emit)
    for handler in logging.getLogger().handlers:
        handler.addFilter(made)
    return made
