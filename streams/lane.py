"""A lane per owned partition: joins what has come in while the last chunk was being sent, bounded by records."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

LIMIT: Final = 20_000  # records that wait in a lane; then the agent, and behind it the consumer, waits
SILENCE: Final = 1.0  # seconds after which a silent partition is told that time goes on
MANY: Final = 1_000  # records that do not wait for more to come
REST: Final = 0.06  # seconds from chunk to chunk of a lane, when the event loop has no time left
WINDOW: Final = 0.1  # seconds over which it is seen how busy it is


class Pace:
    """How long lanes let records gather. A chunk has its price, however small it is: on an idle machine no record waits; the busier the
    event loop, the longer they gather, so that it is not occupied by ever smaller chunks with all records in a queue behind them."""

    def __init__(self) -> None:
        self._at, self._spent, self._share = time.perf_counter(), time.thread_time(), 0.0

    def rest(self) -> float:
        """Seconds from the beginning of a chunk to that of the next."""
        now = time.perf_counter()
        if now - self._at >= WINDOW:
            spent = time.thread_time()
            self._share = (spent - self._spent) / (now - self._at)
            self._at, self._spent = now, spent
        return REST * self._share


class Lane:
    """`handle` is called with all that is waiting, one call at a time; `silent` when nothing has come for a second.

    An exception of either ends the lane and goes to `failed`, which ends the worker.
    """

    def __init__(
        self,
        handle: Callable[[list[Any]], Awaitable[None]],
        silent: Callable[[], Awaitable[None]],
        failed: Callable[[BaseException], Awaitable[None]],
        pace: Pace,
    ) -> None:
        self._handle, self._silent, self._failed = handle, silent, failed
        self._pace = pace
        self._waiting: list[Any] = []
        self._come = asyncio.Event()
        self._room = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def put(self, records: Sequence[Any]) -> None:
        while len(self._waiting) >= LIMIT:
            self._room.clear()
            await self._room.wait()
        self._waiting += records
        self._come.set()

    async def stop(self) -> None:
        """Drops what waits: it is not committed, and the next owner reads it. Lets what runs end first."""
        self._waiting = []
        self._room.set()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        began = 0.0
        try:
            while True:
                try:
                    await asyncio.wait_for(self._come.wait(), SILENCE)
                except TimeoutError:
                    await asyncio.shield(asyncio.ensure_future(self._silent()))
                    continue
                ahead = began + self._pace.rest() - time.perf_counter()
                if ahead > 0 and len(self._waiting) < MANY:
                    await asyncio.sleep(ahead)
                began = time.perf_counter()
                records, self._waiting = self._waiting, []
                self._come.clear()
                self._room.set()
                await self._handle(records)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            await self._failed(error)
