"""A lane per owned partition: joins what has come in while the last chunk was being sent, bounded by records."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

LIMIT: Final = 20_000  # records that wait in a lane; then the agent, and behind it the consumer, waits
SILENCE: Final = 1.0  # seconds after which a silent partition is told that time goes on


class Lane:
    """`handle` is called with all that is waiting, one call at a time; `silent` when nothing has come for a second.

    An exception of either ends the lane and goes to `failed`, which ends the worker.
    """

    def __init__(
        self,
        handle: Callable[[list[Any]], Awaitable[None]],
        silent: Callable[[], Awaitable[None]],
        failed: Callable[[BaseException], Awaitable[None]],
    ) -> None:
        self._handle, self._silent, self._failed = handle, silent, failed
        self._waiting: list[Any] = []
        self._stopped = False
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
        """Drops what waits: it is not committed, and the next owner reads it. Lets what runs end. Told by a flag: `wait_for` forgets a
        cancellation that comes together with what it waits for."""
        self._stopped = True
        self._waiting = []
        self._room.set()
        self._come.set()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            while not self._stopped:
                try:
                    await asyncio.wait_for(self._come.wait(), SILENCE)
                except TimeoutError:
                    await self._silent()
                    continue
                records, self._waiting = self._waiting, []
                self._come.clear()
                self._room.set()
                if records:
                    await self._handle(records)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            await self._failed(error)
